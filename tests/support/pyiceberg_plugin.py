"""pyiceberg's own code for one data file, as plugins: its scan of a file, and its writer of Parquet.

What it finds, filters and stores is pyiceberg's. The wrapper adds what pyiceberg has no notion of: columns that are
asked for by the file's names, `_pos`, the size of batches, typed errors, and refusals of what is not declared and of
nulls in required columns. Since pyiceberg knows no positions, it is not given the filter where they are asked for. It
writes no ORC, so those files are written by formatkit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids, translate_column_names
from pyiceberg.io.pyarrow import (
    _get_file_format,
    _task_to_record_batches,
    pyarrow_to_schema,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record
from pyiceberg.types import (
    ListType,
    MapType,
    NestedField,
)

from formatkit.batches.arrow.file_reading import decoding
from formatkit.contract import (
    BatchStream,
    ByteSource,
    Capability,
    FormatWriter,
    OpenOptions,
    ReadOptions,
    ReadResult,
)
from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import POS
from formatkit.errors import CorruptFileError, StorageError, UnsupportedError
from formatkit.tck.without_ids import renumbered
from support.pyiceberg_file_io import OneFile
from support.pyiceberg_writer import PyicebergParquetWriter, RestrictedOrcWriter

__all__ = ["PyicebergOrc", "PyicebergParquet"]

_CLAIMED = frozenset({Capability.FILTER_ROWS, Capability.FIELD_IDS})


class PyicebergParquet:
    """Parquet as pyiceberg reads and writes it in tables of version 3."""

    file_format = "parquet"
    batch_type = pa.RecordBatch
    capabilities = _CLAIMED | {
        Capability.SKIP_CHUNKS,
        Capability.COLUMN_SIZES,
        Capability.DICTIONARY,
    }
    extensions = (".parquet",)
    magic = b"PAR1"

    def reader(self) -> _Reader:
        return _Reader(FileFormat.PARQUET, format_version=3)

    def writer(self) -> FormatWriter[pa.RecordBatch]:
        return PyicebergParquetWriter()


class PyicebergOrc:
    """ORC as pyiceberg reads it in tables of version 2: in those of version 3 it takes microseconds for nanoseconds."""

    file_format = "orc"
    batch_type = pa.RecordBatch
    capabilities = _CLAIMED
    extensions = (".orc",)
    magic = b"ORC"

    def reader(self) -> _Reader:
        return _Reader(FileFormat.ORC, format_version=2)

    def writer(self) -> FormatWriter[pa.RecordBatch]:
        return RestrictedOrcWriter()


@dataclass(frozen=True)
class _Reader:
    file_format: FileFormat
    format_version: Any

    def open(self, source: ByteSource, options: OpenOptions) -> _File:
        if options.encryption is not None:
            raise UnsupportedError(f"{source.location}: pyiceberg cannot decrypt files", location=source.location)
        with _reading(source.location, self.file_format.name), source.open() as stream:
            fragment = _get_file_format(self.file_format).make_fragment(stream)
            stored, rows = fragment.physical_schema, fragment.count_rows()
        return _File(source, self, stored, rows)

    def schema(self, stored: pa.Schema) -> Schema:
        """What pyiceberg takes a file for."""
        downcast = self.format_version <= 2
        return pyarrow_to_schema(stored, downcast_ns_timestamp_to_us=downcast, format_version=self.format_version)


class _File:
    unreadable: Mapping[int, str] = MappingProxyType({})
    split_offsets: tuple[int, ...] = ()
    metadata: Mapping[str, str] = MappingProxyType({})

    def __init__(self, source: ByteSource, reader: _Reader, stored: pa.Schema, rows: int) -> None:
        self.schema = reader.schema(stored)
        self.row_count = rows
        self._source = source
        self._reader = reader

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        if options.split is not None and (options.split.start, options.split.length) != (0, self._source.size()):
            raise UnsupportedError(f"{self._source.location}: pyiceberg reads files as a whole")
        counts_rows = any(field.field_id == POS.field_id for field in options.projection.fields)
        residual = options.predicate if counts_rows else AlwaysTrue()
        predicate = AlwaysTrue() if counts_rows else options.predicate
        return ReadResult(batches=BatchStream(self._batches(options, predicate, counts_rows)), residual=residual)

    def describe(self) -> Mapping[str, Any]:
        return {"reader": "pyiceberg"}

    def close(self) -> None:
        """Nothing stays open between reads."""

    def _batches(
        self, options: ReadOptions, predicate: BooleanExpression, counts_rows: bool
    ) -> Iterator[pa.RecordBatch]:
        wanted = Schema(*(field for field in options.projection.fields if field.field_id != POS.field_id))
        projection = renumbered(wanted, dict(_ids_by_name(wanted.fields, self.schema.fields)))
        row_filter = bind(self.schema, translate_column_names(predicate, wanted), case_sensitive=True)
        dictionaries = [field.name for field in wanted.fields if field.field_id in options.dictionary_columns]
        first_row = 0
        with _reading(self._source.location, self._reader.file_format.name):
            for batch in self._scan(projection, row_filter, tuple(dictionaries)):
                for start in range(0, batch.num_rows, options.batch_rows):
                    part = batch.slice(start, options.batch_rows)
                    yield _with_positions(part, first_row) if counts_rows else part
                    first_row += part.num_rows

    def _scan(
        self, projection: Schema, row_filter: BooleanExpression, dictionaries: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """What pyiceberg's scan does with each of its tasks."""
        leaves = {
            field_id
            for field_id in projection.field_ids
            if not isinstance(projection.find_type(field_id), ListType | MapType)
        }
        yield from _task_to_record_batches(
            OneFile(self._source),
            FileScanTask(self._data_file()),
            row_filter,
            projection,
            self.schema,
            leaves | extract_field_ids(row_filter),
            positional_deletes=None,
            case_sensitive=True,
            format_version=self._reader.format_version,
            dictionary_columns=dictionaries,
        )

    def _data_file(self) -> DataFile:
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._source.location,
            file_format=self._reader.file_format,
            partition=Record(),
            record_count=self.row_count,
            file_size_in_bytes=self._source.size(),
        )


@contextmanager
def _reading(location: str, what: str) -> Iterator[None]:
    try:
        with decoding(location, what):
            yield
    except CorruptFileError as error:
        # Arrow's reader of ORC hands on what a file object raises as nothing but text.
        if StorageError.__name__ in str(error):
            raise StorageError(str(error), location=location) from error
        raise


def _with_positions(batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    positions = pa.array(np.arange(first_row, first_row + batch.num_rows, dtype=np.int64))
    return pa.RecordBatch.from_arrays([*batch.columns, positions], names=[*batch.schema.names, POS.name])


def _ids_by_name(wanted: Sequence[NestedField], stored: Sequence[NestedField]) -> Iterator[tuple[int, int]]:
    """Pairs of ids: one that was asked for, and that of the file's field of this name."""
    by_name = {field.name: field for field in stored}
    for field in wanted:
        found = by_name[field.name]
        yield field.field_id, found.field_id
        yield from _ids_by_name(child_fields(field.field_type), child_fields(found.field_type))
