"""Writes one file without a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from formatkit.contract import (
    ByteSink,
    Capability,
    DataBatch,
    Encryption,
    FileMetrics,
    FormatPlugin,
    MetricsMode,
    WriteOptions,
    WriteResult,
)
from formatkit.errors import UnsupportedError
from formatkit.io import OutputLocation, open_sink
from formatkit.registry import FormatRegistry, default_registry
from formatkit.write.data_file import data_file
from formatkit.write.derive import derived_schema
from formatkit.write.incoming import ArrowData, incoming_batches
from formatkit.write.matching import Matcher
from formatkit.write.metrics import metrics_modes

__all__ = ["WrittenFile", "write_file"]


@dataclass(frozen=True, kw_only=True)
class WrittenFile:
    """A file that was written, and what is known of it.

    Attributes:
        file_format: The format's name.
        schema: What was written, ids included.
        result: Location, size and layout, as the format reports them.
        metrics: Counts and bounds of the values.
        modes: How much of the metrics was asked for, by leaf id.
    """

    file_format: str
    schema: Schema
    result: WriteResult
    metrics: FileMetrics
    modes: Mapping[int, MetricsMode]

    @property
    def location(self) -> str:
        return self.result.location

    @property
    def size_bytes(self) -> int:
        return self.result.size_bytes

    @property
    def row_count(self) -> int:
        return self.result.row_count

    def to_data_file(
        self, *, partition: Record | None = None, spec_id: int = 0, sort_order_id: int | None = None
    ) -> DataFile:
        """The file as pyiceberg commits it."""
        return data_file(
            self.result,
            self.metrics,
            self.modes,
            self.schema,
            file_format=self.file_format,
            partition=partition,
            spec_id=spec_id,
            sort_order_id=sort_order_id,
        )


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
        rows = itertools.chain(() if first is None else (first,), incoming)
        return _write(rows, sink, plugin, registry.batches(pa.RecordBatch), options)


def _write(
    batches: Iterable[pa.RecordBatch],
    sink: ByteSink,
    plugin: FormatPlugin[pa.RecordBatch],
    ops: DataBatch[pa.RecordBatch],
    options: WriteOptions,
) -> WrittenFile | None:
    modes = metrics_modes(options.schema, options.properties)
    collector = ops.collector(options.schema, modes)
    matcher = Matcher(options.schema, ops)
    with plugin.writer().open(sink, options) as writer:
        for batch in batches:
            matched = matcher.match(batch)
            collector.update(matched)
            writer.write(matched)
        result = writer.close()
    if result is None:
        return None
    return WrittenFile(
        file_format=plugin.file_format,
        schema=options.schema,
        result=result,
        metrics=collector.finish(),
        modes=modes,
    )
