"""pyiceberg's own code for one data file, as plugins: its scan of a file, and its writer of Parquet.

What it finds, filters and stores is pyiceberg's. The wrapper adds what pyiceberg has no notion of: columns that are
asked for by the file's names, `_pos`, the size of batches, typed errors, and refusals of what is not declared. Since
pyiceberg knows no positions, it is not given the filter where they are asked for. It writes no ORC, so those files are
written by formatkit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType, TracebackType
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids, translate_column_names
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import (
    _get_file_format,
    _HasIds,
    _pyarrow_to_schema_without_ids,
    _task_to_record_batches,
    pyarrow_to_schema,
    visit_pyarrow,
    write_file,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, WriteTask
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.name_mapping import NameMapping, create_mapping_from_schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from formatkit.batches.arrow.file_reading import decoding
from formatkit.batches.arrow.file_writing import ArrowFileWriter, EncoderOutput
from formatkit.contract import (
    BatchStream,
    ByteSink,
    ByteSource,
    Capability,
    FormatFileWriter,
    FormatWriter,
    OpenOptions,
    ReadOptions,
    ReadResult,
    WriteOptions,
    WriteResult,
)
from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import POS
from formatkit.contract.variant import VariantType
from formatkit.errors import CorruptFileError, InvalidDataError, StorageError, UnsupportedError
from formatkit.formats.orc.plugin import OrcFormat
from formatkit.tck.without_ids import renumbered

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
        return _ParquetWriter()


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
        return _OrcWriter()


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

    def schema(self, stored: pa.Schema) -> tuple[Schema, NameMapping | None]:
        """What pyiceberg takes a file for, and the mapping without which it refuses to read one that has no ids."""
        facts: dict[str, Any] = {
            "downcast_ns_timestamp_to_us": self.format_version <= 2,
            "format_version": self.format_version,
        }
        if visit_pyarrow(stored, _HasIds()):
            return pyarrow_to_schema(stored, **facts), None
        nobody = count(-1, -1)
        schema = _numbered(_pyarrow_to_schema_without_ids(stored, **facts), nobody)
        return schema, create_mapping_from_schema(schema)


class _File:
    unreadable: Mapping[int, str] = MappingProxyType({})
    split_offsets: tuple[int, ...] = ()
    metadata: Mapping[str, str] = MappingProxyType({})

    def __init__(self, source: ByteSource, reader: _Reader, stored: pa.Schema, rows: int) -> None:
        self.schema, self._mapping = reader.schema(stored)
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
            _OneFile(self._source),
            FileScanTask(self._data_file()),
            row_filter,
            projection,
            self.schema,
            leaves | extract_field_ids(row_filter),
            positional_deletes=None,
            case_sensitive=True,
            name_mapping=self._mapping,
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


def _numbered(schema: Schema, ids: Iterator[int]) -> Schema:
    return Schema(*(_numbered_field(field, ids) for field in schema.fields))


def _numbered_field(field: NestedField, ids: Iterator[int]) -> NestedField:
    kind = _numbered_type(field.field_type, ids)
    return field.model_copy(update={"field_id": next(ids), "field_type": kind})


def _numbered_type(kind: IcebergType, ids: Iterator[int]) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*(_numbered_field(field, ids) for field in kind.fields))
        case ListType():
            return ListType(next(ids), _numbered_type(kind.element_type, ids), kind.element_required)
        case MapType():
            key, value = _numbered_type(kind.key_type, ids), _numbered_type(kind.value_type, ids)
            return MapType(next(ids), key, next(ids), value, kind.value_required)
    return kind


class _OneFile(FileIO):
    """A `FileIO` for which every location is that of one source, or of one output."""

    def __init__(self, source: ByteSource | None = None, output: EncoderOutput | None = None) -> None:
        super().__init__()
        self._source = source
        self._output = output

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._source)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self._output)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise UnsupportedError(f"{location}: is not pyiceberg's to delete")


class _Input(InputFile):
    def __init__(self, location: str, source: Any) -> None:
        super().__init__(location)
        self._source = source

    def __len__(self) -> int:
        return int(self._source.size())

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        stream: BinaryIO = self._source.open()
        return stream


class _Output(OutputFile):
    def __init__(self, location: str, output: Any) -> None:
        super().__init__(location)
        self._output = output

    def __len__(self) -> int:
        return int(self._output.tell())

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        raise UnsupportedError(f"{self.location}: cannot be read while it is written")

    def create(self, overwrite: bool = False) -> Any:
        return _OutputStream(self._output)


class _OutputStream:
    closed = False

    def __init__(self, output: EncoderOutput) -> None:
        self._output = output
        self.write, self.tell, self.flush = output.write, output.tell, output.flush

    def close(self) -> None:
        """The writer publishes the file."""

    def __enter__(self) -> _OutputStream:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _refuse(sink: ByteSink, options: WriteOptions) -> None:
    """Refuse what is not declared; nanoseconds because without pandas pyiceberg has no statistics of them."""
    if options.encryption is not None or options.metadata:
        raise UnsupportedError(f"{sink.location}: pyiceberg neither encrypts files nor stores key-value pairs")
    for field_id in options.schema.field_ids:
        kind = options.schema.find_type(field_id)
        if isinstance(kind, VariantType | TimestampNanoType | TimestamptzNanoType):
            raise UnsupportedError(f"{sink.location}: pyiceberg has no {kind} in such files")


class _ParquetWriter:
    def open(self, sink: ByteSink, options: WriteOptions) -> ArrowFileWriter:
        _refuse(sink, options)
        output = EncoderOutput(sink.create(overwrite=options.overwrite))
        return _ParquetFileWriter(output, _Encoder(output, options, sink.location), sink, options)


class _ParquetFileWriter(ArrowFileWriter):
    def __init__(self, output: EncoderOutput, encoder: _Encoder, sink: ByteSink, options: WriteOptions) -> None:
        super().__init__(output, encoder, options.schema, sink, options)
        self._pyiceberg = encoder

    def bytes_written(self) -> int:
        return sum(batch.nbytes for batch in self._pyiceberg.batches)

    def _finish(self) -> WriteResult | None:
        result = super()._finish()
        return result and replace(result, column_sizes=self._pyiceberg.column_sizes)


class _Encoder:
    """Keeps batches until the end, when pyiceberg writes them at once, as it does with what is appended to a table."""

    def __init__(self, output: EncoderOutput, options: WriteOptions, location: str) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.column_sizes: Mapping[int, int] = {}
        self._output = output
        self._options = options
        self._location = location

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def finish(self) -> None:
        schema = self._options.schema
        facts: dict[str, Any] = {
            "location": "memory:table",
            "last-column-id": max(schema.field_ids, default=0),
            "schemas": [schema],
            "current-schema-id": schema.schema_id,
            "partition-specs": [UNPARTITIONED_PARTITION_SPEC],
            "properties": dict(self._options.properties),
        }
        table = TableMetadataV2(**facts)
        task = WriteTask(write_uuid=uuid4(), task_id=0, schema=schema, record_batches=self.batches)
        try:
            (written,) = write_file(_OneFile(output=self._output), table, iter([task]))
        except pa.ArrowInvalid as error:
            raise InvalidDataError(f"a batch cannot be written to {self._location}: {error}") from error
        self.column_sizes = dict(written.column_sizes)


class _OrcWriter:
    def open(self, sink: ByteSink, options: WriteOptions) -> _OrcFileWriter:
        _refuse(sink, options)
        return _OrcFileWriter(OrcFormat().writer().open(sink, options))


class _OrcFileWriter:
    """formatkit's writer, which reports nothing that is not declared."""

    def __init__(self, writer: FormatFileWriter[pa.RecordBatch]) -> None:
        self._writer = writer
        self.write, self.bytes_written, self.abort = writer.write, writer.bytes_written, writer.abort

    def close(self) -> WriteResult | None:
        result = self._writer.close()
        return result and replace(result, column_sizes=None, split_offsets=None)

    def __enter__(self) -> _OrcFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)
