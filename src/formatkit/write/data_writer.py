"""One data file while it is written, and what is known of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from formatkit.contract import (
    ByteSink,
    DataBatch,
    FileMetrics,
    FormatWriter,
    MetricsMode,
    WriteOptions,
    WriteResult,
)
from formatkit.errors import enough_memory
from formatkit.write.data_file import data_file

__all__ = ["DataFileWriter", "WrittenFile"]


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
        self,
        *,
        partition: Record | None = None,
        spec_id: int = 0,
        sort_order_id: int | None = None,
        content: DataFileContent = DataFileContent.DATA,
        equality_ids: Sequence[int] | None = None,
        referenced_data_file: str | None = None,
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
            content=content,
            equality_ids=equality_ids,
            referenced_data_file=referenced_data_file,
        )


class DataFileWriter:
    """Writes batches of one schema to a file and gathers the metrics of their values.

    Args:
        sink: Where the file will be.
        file_format: Its format's name.
        writer: Creates files of the format. With one for all files of a table it need not prepare itself each time.
        ops: The operations on batches.
        options: What to write.
        modes: Which metrics are wanted, by leaf id.
    """

    def __init__(
        self,
        sink: ByteSink,
        file_format: str,
        writer: FormatWriter[pa.RecordBatch],
        ops: DataBatch[pa.RecordBatch],
        options: WriteOptions,
        modes: Mapping[int, MetricsMode],
    ) -> None:
        self._location = sink.location
        self._file_format = file_format
        self._schema = options.schema
        self._modes = modes
        self._collector = ops.collector(options.schema, modes)
        self._writer = writer.open(sink, options)

    def write(self, batch: pa.RecordBatch) -> None:
        with enough_memory(self._location):
            self._collector.update(batch)
            self._writer.write(batch)

    def bytes_written(self) -> int:
        """About how long the file would be if it were closed now."""
        return self._writer.bytes_written()

    def close(self) -> WrittenFile | None:
        """Publish the file; None if it has no rows, and then there is none."""
        with enough_memory(self._location):
            result = self._writer.close()
        if result is None:
            return None
        return WrittenFile(
            file_format=self._file_format,
            schema=self._schema,
            result=result,
            metrics=self._collector.finish(),
            modes=self._modes,
        )

    def abort(self) -> None:
        """Leave no file."""
        self._writer.abort()
