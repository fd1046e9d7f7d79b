"""Writes one file without a table."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import closing

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from formatkit.contract import Capability, Encryption, WriteOptions
from formatkit.errors import UnsupportedError
from formatkit.io import OutputLocation, open_sink
from formatkit.registry import FormatRegistry, default_registry
from formatkit.write.data_writer import DataFileWriter, WrittenFile
from formatkit.write.derive import derived_schema
from formatkit.write.incoming import ArrowData, incoming_batches
from formatkit.write.matching import Matcher
from formatkit.write.metrics import metrics_modes

__all__ = ["WrittenFile", "write_file"]


def write_file(
    output: OutputLocation,
    batches: ArrowData,
    schema: Schema | pa.Schema | None = None,
    file_format: str | None = None,
    *,
    properties: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    overwrite: bool = False,
    encryption: Encryption | None = None,
    io: FileIO | None = None,
    registry: FormatRegistry | None = None,
) -> WrittenFile | None:
    """Write Arrow data to one file; a failure leaves no file.

    Columns are matched with the schema by name; `formatkit.write.matching` has the rule.

    Args:
        output: A path, a URI or a pyiceberg `OutputFile`.
        batches: A record batch, table or reader, a Polars, pandas or DuckDB frame, or an iterable of batches.
        schema: What to write. If left out, it is derived from the data: ids come from the fields' metadata or are new.
        file_format: The format's name; taken from the ending of the location if left out.
        properties: Table properties: `write.parquet.*` and the like, `write.metadata.metrics.*`. Unknown ones are
            ignored.
        metadata: Key-value pairs for the file's own metadata.
        overwrite: Whether a file at the location may be replaced.
        encryption: The key, for formats that encrypt by themselves.
        io: Where to look up locations that are not local; made from the location's scheme if left out.
        registry: Where formats are looked up; those that are installed if left out.

    Returns:
        The written file, or None if there were no rows: then nothing is written, and a file that was to be replaced
        stays.
    """
    registry = registry or default_registry()
    sink = open_sink(output, io)
    plugin = registry.plugin(file_format or registry.detect(sink.location), pa.RecordBatch)
    if encryption is not None and Capability.ENCRYPTION not in plugin.capabilities:
        raise UnsupportedError(f"the format {plugin.file_format} cannot encrypt; write {sink.location} without a key")
    with closing(incoming_batches(batches)) as incoming:
        first = next(incoming, None)
        if schema is None:
            if first is None:
                return None
            schema = first.schema
        options = WriteOptions(
            schema=derived_schema(schema) if isinstance(schema, pa.Schema) else schema,
            properties=properties or {},
            metadata=metadata or {},
            encryption=encryption,
            overwrite=overwrite,
        )
        ops = registry.batches(pa.RecordBatch)
        matcher = Matcher(options.schema, ops)
        modes = metrics_modes(options.schema, options.properties)
        writer = DataFileWriter(sink, plugin.file_format, plugin.writer(), ops, options, modes)
        try:
            for batch in itertools.chain(() if first is None else (first,), incoming):
                writer.write(matcher.match(batch))
            return writer.close()
        except BaseException:
            writer.abort()
            raise
