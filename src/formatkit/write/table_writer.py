"""Writes data files of a table; nothing is committed here."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.typedef import Record

from formatkit.contract import WriteOptions
from formatkit.errors import FormatkitError
from formatkit.io import open_sink
from formatkit.registry import FormatRegistry, default_registry
from formatkit.write.commit import UncommittedFiles
from formatkit.write.config import TableWriteConfig
from formatkit.write.data_writer import DataFileWriter
from formatkit.write.fanout import FanOut
from formatkit.write.incoming import ArrowData, incoming_batches
from formatkit.write.locations import DataLocations
from formatkit.write.matching import Matcher
from formatkit.write.metrics import metrics_modes
from formatkit.write.partition import Partition, Partitioner, Split
from formatkit.write.rolling import FileMaker, concat
from formatkit.write.sorting import Sorter, sorted_ids

__all__ = ["TableWriter", "write_data_files"]

_WINDOW_ROWS = 131_072
"""So many rows are split by partition at once, if memory allows: each partition then gets a piece that is worth it."""

_MOST_OPEN_FILES = 100
_BUFFER_BYTES = 512 << 20
_WINDOWS_IN_BUFFER = 8
_NO_PARTITION = Partition((), Record())


class TableWriter:
    """Batches in, data files out: one writer for one process.

        with TableWriter(table.metadata, table.io) as writer:
            for batch in batches:
                writer.write(batch)
            files = writer.close()

    A write that fails deletes every file that was written so far, and so does leaving the ``with`` block by an
    exception. After `close` the files are the caller's.

    Args:
        table: The table's metadata, or a `TableWriteConfig`, which is small and can be sent to other processes; with
            that the keyword arguments up to `target_file_bytes` say nothing.
        io: Where the files are written.
        file_format: The format; `write.format.default` of the table if left out, else Parquet.
        schema: What to write, if it is not the table's current schema: with `_row_id` and
            `_last_updated_sequence_number`, where rows are only moved.
        sort_order: How to sort the rows of each file; the table's order if left out.
        properties: For this write, on top of the table's own properties.
        target_file_bytes: About how long files get; `write.target-file-size-bytes` of the table if left out.
        files: Is told the location of each file before it is written.
        clustered: Whether all rows of a partition follow each other. If left out, this is found out.
        most_open_files: So many files are open at the most.
        buffer_bytes: About how much memory rows may take while they wait for being written to many partitions.
        task: The number of this writer among those that write at the same time; a part of the files' names.
        prefix: How the files' names begin, if not with `task` and a UUID; no other writer may ever have the same one.
        registry: Where formats are looked up; those that are installed if left out.
        catalog_properties: The configuration of the table's catalog. What the table itself cannot be believed, such as
            the class of a location provider, is believed if it stands there.
    """

    def __init__(
        self,
        table: TableMetadata | TableWriteConfig,
        io: FileIO,
        *,
        file_format: str | None = None,
        schema: Schema | None = None,
        sort_order: SortOrder | None = None,
        properties: Mapping[str, str] | None = None,
        target_file_bytes: int | None = None,
        files: UncommittedFiles | None = None,
        clustered: bool | None = None,
        most_open_files: int = _MOST_OPEN_FILES,
        buffer_bytes: int = _BUFFER_BYTES,
        task: int = 0,
        prefix: str | None = None,
        registry: FormatRegistry | None = None,
        catalog_properties: Mapping[str, Any] | None = None,
    ) -> None:
        config = (
            table
            if isinstance(table, TableWriteConfig)
            else TableWriteConfig.of(
                table,
                file_format=file_format,
                schema=schema,
                sort_order=sort_order,
                properties=properties,
                target_file_bytes=target_file_bytes,
                catalog_properties=catalog_properties,
            )
        )
        registry = registry or default_registry()
        self._config = config
        self._io = io
        plugin = registry.plugin(config.file_format, pa.RecordBatch)
        self._writer = plugin.writer()
        self._ops = registry.batches(pa.RecordBatch)
        self._options = WriteOptions(schema=config.schema, properties=config.properties)
        self._modes = metrics_modes(config.schema, config.properties, sorted_ids(config.sort_order))
        self._matcher = Matcher(config.schema, self._ops)
        self._partitioner = Partitioner(config.spec, config.schema) if config.spec.fields else None
        self._locations = DataLocations(
            config.location,
            config.properties,
            config.spec,
            config.schema,
            ending=plugin.extensions[0],
            task=task,
            prefix=prefix,
            trusted=config.trusted,
        )
        self._callers_files = files
        self._own_files = UncommittedFiles(io)
        self._fan_out = FanOut(
            FileMaker(
                open=self._open_file,
                finish=self._finish_file,
                sorter=None if config.sort_order.is_unsorted else Sorter(config.sort_order, config.schema),
                target_bytes=config.target_file_bytes,
            ),
            most_open=most_open_files,
            buffer_bytes=buffer_bytes,
            clustered=clustered,
        )
        self._most_window_bytes = buffer_bytes // _WINDOWS_IN_BUFFER
        self._window: list[pa.RecordBatch] = []
        self._window_rows = self._window_bytes = 0
        self._state: Literal["open", "closed", "aborted"] = "open"
        self._written: tuple[DataFile, ...] = ()

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch; `formatkit.write.matching` says how its columns are matched with the schema."""
        self._require_open()
        try:
            self._take(self._matcher.match(batch))
        except BaseException:
            self.abort()
            raise

    def close(self) -> tuple[DataFile, ...]:
        """Finish all files and describe them; nothing if there were no rows. Calling it again returns the same."""
        if self._state == "closed":
            return self._written
        self._require_open()
        try:
            self._split_window()
            self._written = self._fan_out.close()
        except BaseException:
            self.abort()
            raise
        self._state = "closed"
        self._own_files.keep()
        return self._written

    def abort(self) -> None:
        """Delete everything that was written; does nothing after `close`."""
        if self._state != "open":
            return
        self._state = "aborted"
        self._window.clear()
        try:
            self._fan_out.abort()
        finally:
            written = self._own_files.locations
            self._own_files.discard()
            if self._callers_files is not None:
                for location in written:
                    self._callers_files.forget(location)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def _require_open(self) -> None:
        if self._state != "open":
            raise FormatkitError(f"the writer of {self._config.location} was {self._state}; make a new one")

    def _take(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        if self._partitioner is None:
            self._fan_out.write(Split([(_NO_PARTITION, batch)], clustered=True))
            return
        self._window.append(batch)
        self._window_rows += batch.num_rows
        self._window_bytes += batch.nbytes
        if self._window_rows >= _WINDOW_ROWS or self._window_bytes >= self._most_window_bytes:
            self._split_window()

    def _split_window(self) -> None:
        if self._partitioner is None or not self._window:
            return
        batch = self._window[0] if len(self._window) == 1 else concat(self._window)
        self._window.clear()
        self._window_rows = self._window_bytes = 0
        self._fan_out.write(self._partitioner.split(batch))

    def _open_file(self, partition: Record) -> DataFileWriter:
        location = self._own_files.add(self._locations.new(partition))
        if self._callers_files is not None:
            self._callers_files.add(location)
        sink = open_sink(location, self._io)
        return DataFileWriter(sink, self._config.file_format, self._writer, self._ops, self._options, self._modes)

    def _finish_file(self, file: DataFileWriter, partition: Record) -> DataFile | None:
        written = file.close()
        if written is None:
            return None
        return written.to_data_file(
            partition=partition, spec_id=self._config.spec.spec_id, sort_order_id=self._config.sort_order_id
        )


def write_data_files(table: Table, data: ArrowData, **options: Any) -> tuple[DataFile, ...]:
    """Write data as files of a table, which is not changed. A failure leaves no file.

    Args:
        table: The table.
        data: A record batch, table or reader, a Polars, pandas or DuckDB frame, or an iterable of these.
        options: The keyword arguments of `TableWriter`.
    """
    made = TableWriter(table.metadata, table.io, catalog_properties=table.catalog.properties, **options)
    with made as writer, closing(incoming_batches(data)) as batches:
        for batch in batches:
            writer.write(batch)
        return writer.close()
