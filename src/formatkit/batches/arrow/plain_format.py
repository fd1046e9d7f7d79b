"""A base for formats that are read from the first byte to the last: their author writes the bytes and nothing else.

It keeps all clauses that do not depend on bytes: projection at every level, `_pos`, the size of batches, refusals, and
the life of a file that is written. A format that can split, skip or filter implements the contract itself;
`formatkit.formats.arrow` is an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.constants import column_of
from formatkit.batches.arrow.file_reading import Projector, rows_without_columns
from formatkit.batches.arrow.file_schema import without_unknown
from formatkit.batches.arrow.file_writing import ArrowFileWriter, EncoderOutput
from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract.capability import Capability
from formatkit.contract.options import OpenOptions, ReadOptions, Split, WriteOptions
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.contract.storage import ByteSink, ByteSource
from formatkit.errors import (
    CorruptFileError,
    FormatkitError,
    InvalidDataError,
    SchemaResolutionError,
    UnsupportedError,
)

__all__ = ["FileDescription", "PlainFormat", "batch_of_rows"]


@dataclass(frozen=True, kw_only=True)
class FileDescription:
    """What a file says about itself; see `FormatFile` for the meaning of each."""

    schema: Schema
    metadata: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[int, str] = field(default_factory=dict)
    row_count: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class PlainFormat(ABC):
    """A `FormatPlugin` for Arrow batches.

    Subclasses set `file_format`, `extensions` and, if files can be told by them, the first bytes as `magic`;
    `capabilities` if they store ids, key-value pairs, nanoseconds or variants. Whatever error of Python's own or of a
    library ends `describe` or `decode` is reported as `CorruptFileError`, so that they need not foresee every damage.
    """

    file_format: str
    batch_type: type[pa.RecordBatch] = pa.RecordBatch
    capabilities: frozenset[Capability] = frozenset()
    extensions: tuple[str, ...] = ()
    magic: bytes = b""

    @abstractmethod
    def describe(self, source: ByteSource) -> FileDescription:
        """Read what a file says about itself, and none of its rows."""

    @abstractmethod
    def decode(
        self, source: ByteSource, description: FileDescription, columns: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        """All rows in their order, in batches of any size and with these top-level columns only.

        Args:
            source: The file.
            description: What `describe` returned for it.
            columns: Positions in the file's schema, ascending. If there are none, only the number of rows is wanted.
        """

    @abstractmethod
    def begin(self, options: WriteOptions) -> bytes:
        """The bytes before the rows; `options.schema` has no columns of type unknown here and below."""

    @abstractmethod
    def encode(self, batch: pa.RecordBatch, options: WriteOptions) -> bytes:
        """The bytes of a batch, which is in canonical form and has rows."""

    @abstractmethod
    def end(self, rows: int, options: WriteOptions) -> bytes:
        """The bytes after the rows."""

    def reader(self) -> _Reader:
        return _Reader(self)

    def writer(self) -> _Writer:
        return _Writer(self)


@dataclass(frozen=True)
class _Reader:
    form: PlainFormat

    def open(self, source: ByteSource, options: OpenOptions) -> _File:
        if options.encryption is not None:
            raise _unsupported(self.form, source.location, "decrypt files")
        with _parsing(self.form, source.location):
            return _File(self.form, source, self.form.describe(source))


@dataclass(frozen=True)
class _File:
    form: PlainFormat
    source: ByteSource
    description: FileDescription

    split_offsets: tuple[int, ...] = ()

    @property
    def schema(self) -> Schema:
        return self.description.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self.description.unreadable

    @property
    def row_count(self) -> int | None:
        return self.description.row_count

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.description.metadata

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        if not self._is_whole(options.split):
            raise _unsupported(self.form, self.source.location, "read a part of a file")
        batches = self._batches(Projector(self.schema, options))
        return ReadResult(batches=BatchStream(batches), residual=options.predicate)

    def describe(self) -> Mapping[str, Any]:
        return self.description.facts

    def close(self) -> None:
        """Nothing stays open between reads."""

    def _is_whole(self, split: Split | None) -> bool:
        return split is None or (split.start <= 0 and split.end >= self.source.size())

    def _batches(self, projector: Projector) -> Iterator[pa.RecordBatch]:
        first_row = 0
        with _parsing(self.form, self.source.location):
            for columns in self.form.decode(self.source, self.description, projector.positions):
                yield from projector.batches(columns, first_row)
                first_row += columns.num_rows


@dataclass(frozen=True)
class _Writer:
    form: PlainFormat

    def open(self, sink: ByteSink, options: WriteOptions) -> ArrowFileWriter:
        if options.encryption is not None:
            raise _unsupported(self.form, sink.location, "encrypt files")
        if options.metadata and Capability.FILE_METADATA not in self.form.capabilities:
            raise _unsupported(self.form, sink.location, "store key-value pairs")
        stored = replace(options, schema=without_unknown(options.schema))
        beginning = self.form.begin(stored)
        output = EncoderOutput(sink.create(overwrite=options.overwrite))
        output.write(beginning)
        return ArrowFileWriter(output, _Encoder(self.form, output, stored), stored.schema, sink, options)


@dataclass
class _Encoder:
    form: PlainFormat
    output: EncoderOutput
    options: WriteOptions
    rows: int = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.output.write(self.form.encode(batch, self.options))
        self.rows += batch.num_rows

    def finish(self) -> None:
        self.output.write(self.form.end(self.rows, self.options))


def batch_of_rows(schema: Schema, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """A canonical batch of rows as `ArrowBatch.rows` hands them out: the way back.

    Raises:
        InvalidDataError: A value is not one of its column's type.
    """
    if not schema.fields:
        return rows_without_columns(len(rows))
    columns = [column_of(field.field_type, [row[i] for row in rows]) for i, field in enumerate(schema.fields)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


@contextmanager
def _parsing(form: PlainFormat, location: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        is_ours = isinstance(error, FormatkitError) and not isinstance(error, InvalidDataError | SchemaResolutionError)
        # A failure of the storage has a number; libraries report broken bytes without one.
        if is_ours or (isinstance(error, OSError) and error.errno is not None):
            raise
        what = f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        message = f"{location}: is a corrupt {form.file_format} file: {what}"
        raise CorruptFileError(message, location=location) from error


def _unsupported(form: PlainFormat, location: str, what: str) -> UnsupportedError:
    return UnsupportedError(f"{location}: the format {form.file_format} cannot {what}", location=location)
