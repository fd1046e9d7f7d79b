"""What writing position deletes and equality deletes have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from formatkit.contract import ByteSink, Capability, DataBatch, FormatPlugin, MetricsMode, WriteOptions
from formatkit.io import OutputLocation, open_sink
from formatkit.registry import FormatRegistry, default_registry
from formatkit.write.data_writer import DataFileWriter, WrittenFile
from formatkit.write.deletes.settings import delete_properties

__all__ = ["DeleteFile"]


@dataclass(frozen=True)
class DeleteFile:
    """The place, the format and the settings of a delete file that is to be written."""

    sink: ByteSink
    plugin: FormatPlugin[pa.RecordBatch]
    operations: DataBatch[pa.RecordBatch]
    properties: Mapping[str, str]

    @classmethod
    def at(
        cls,
        output: OutputLocation,
        file_format: str | None,
        properties: Mapping[str, str] | None,
        io: FileIO | None,
        registry: FormatRegistry | None,
    ) -> DeleteFile:
        """Arguments as in `write_position_deletes`."""
        registry = registry or default_registry()
        sink = open_sink(output, io)
        plugin = registry.plugin(file_format or registry.detect(sink.location), pa.RecordBatch)
        settings = delete_properties(properties or {}, plugin.file_format)
        return cls(sink, plugin, registry.batches(pa.RecordBatch), settings)

    def write(
        self,
        batches: Iterable[pa.RecordBatch],
        schema: Schema,
        metadata: Mapping[str, str],
        modes: Mapping[int, MetricsMode],
    ) -> WrittenFile | None:
        """Write batches of the schema; None, and no file, if they have no rows. A failure leaves no file."""
        plugin = self.plugin
        # Nothing is lost without the pairs: readers go by the manifest.
        stored = metadata if Capability.FILE_METADATA in plugin.capabilities else {}
        options = WriteOptions(schema=schema, properties=self.properties, metadata=stored)
        writer = DataFileWriter(self.sink, plugin.file_format, plugin.writer(), self.operations, options, modes)
        try:
            for batch in batches:
                writer.write(batch)
            return writer.close()
        except BaseException:
            writer.abort()
            raise
