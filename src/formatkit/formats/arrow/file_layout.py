"""The file layout: record batches that a footer at the end locates, so that they can be split and counted."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from io import IOBase
from itertools import accumulate, islice
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.ipc as ipc

from formatkit.batches.arrow.file_reading import decoding, rows_without_columns
from formatkit.contract.file_end import FileEnd
from formatkit.contract.options import Split
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError
from formatkit.forks import cached
from formatkit.formats.arrow.batches import opened, read_options, validated
from formatkit.formats.arrow.end_file import EndFile
from formatkit.formats.arrow.flatbuffer import FlatbufferError, Table

__all__ = ["MAGIC", "FileLayout"]

MAGIC = b"ARROW1"
_TAIL = struct.Struct("<i6s")
_PREFIX = struct.Struct("<iI")
_CONTINUATION = -1
_BLOCK = struct.Struct("<qi4xq")
_FIELD_NODE = struct.Struct("<qq")
# Numbers of fields in Arrow's File.fbs and Message.fbs.
_FOOTER_RECORD_BATCHES = 3
_MESSAGE_HEADER = 2
_RECORD_BATCH_LENGTH = 0
_RECORD_BATCH_NODES = 1
# Arrow's specification advises against longer ones, and a damaged length should not keep anybody busy for years.
_MOST_ROWS = 2**31 - 1
_SMALL_BODY_BYTES = 1 << 20


class _Block(NamedTuple):
    """Where a record batch is: a description of its buffers, then the buffers."""

    offset: int
    metadata_bytes: int
    body_bytes: int

    @property
    def parts(self) -> tuple[ByteRange, ByteRange]:
        """Both as they are read."""
        start = self.offset + self.metadata_bytes
        return ByteRange(self.offset, self.metadata_bytes), ByteRange(start, self.body_bytes)

    @property
    def midpoint(self) -> int:
        """The byte that decides which split it belongs to."""
        return self.offset + (self.metadata_bytes + self.body_bytes) // 2


class FileLayout:
    """One file in the file layout. Its footer was read; each read opens it anew."""

    name = "file"

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._end = FileEnd(source)
        self._blocks = self._read_blocks()
        # pyarrow looks at the end only, which is here.
        with decoding(source.location, "Arrow"):
            reader = ipc.open_file(pa.PythonFile(cast("IOBase", EndFile(self._end)), mode="r"))
            self.schema = reader.schema
            if reader.num_record_batches != len(self._blocks):
                raise self._corrupt("its footer contradicts itself")

    @cached
    def rows(self) -> Sequence[int]:
        """The rows of each record batch, which stand in front of its buffers."""
        self._source.prefetch([ByteRange(block.offset, block.metadata_bytes) for block in self._blocks])
        return [self._rows_of(block) for block in self._blocks]

    def announce(self, columns: Sequence[int], split: Split | None) -> None:
        """Say what `batches` will read. Of some of the columns of large record batches that is known only later."""
        if not columns:
            return
        blocks = [self._blocks[number] for number in self._chosen(split)]
        is_whole = len(columns) == len(self.schema)
        ranges = [
            part
            for block in blocks
            for part in (block.parts if is_whole or block.body_bytes <= _SMALL_BODY_BYTES else block.parts[:1])
        ]
        self._source.prefetch([part for part in ranges if part.length])

    @property
    def row_count(self) -> int:
        return sum(self.rows)

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return tuple(sorted(block.offset for block in self._blocks))

    def describe(self) -> Mapping[str, Any]:
        return {"rows": self.row_count, "record_batches": len(self._blocks), "rows_per_record_batch": list(self.rows)}

    def batches(self, columns: Sequence[int], split: Split | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The record batches of a split with some of their columns, each with the ordinal of its first row."""
        if split is None and columns:
            first_row = 0
            for batch in self._decoded(columns, range(len(self._blocks))):
                yield first_row, batch
                first_row += batch.num_rows
            return
        chosen = self._chosen(split)
        first_rows = list(accumulate(self.rows, initial=0))
        if not columns:
            yield from ((first_rows[number], rows_without_columns(self.rows[number])) for number in chosen)
        elif chosen:
            batches = self._decoded(columns, chosen)
            yield from zip((first_rows[number] for number in chosen), batches, strict=True)

    def _chosen(self, split: Split | None) -> list[int]:
        return [
            number
            for number, block in enumerate(self._blocks)
            if split is None or split.start <= block.midpoint < split.end
        ]

    def _decoded(self, columns: Sequence[int], numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        with opened(self._source, self._end) as file:
            reader = ipc.open_file(file, options=read_options(columns, len(self.schema)))
            for number in numbers:
                yield validated(reader.get_batch(number))

    def _read_blocks(self) -> list[_Block]:
        size = self._source.size()
        if size < len(MAGIC) + _TAIL.size:
            raise self._corrupt(f"it has only {size} bytes")
        length, magic = _TAIL.unpack(self._end.read(size - _TAIL.size, _TAIL.size))
        if magic != MAGIC:
            raise self._corrupt("it does not end as it begins, so it was cut or not finished")
        end = size - _TAIL.size
        if not 0 < length <= end - len(MAGIC):
            raise self._corrupt(f"its footer cannot have {length} bytes")
        try:
            footer = Table.root(self._end.read(end - length, length))
            blocks = [_Block(*block) for block in footer.structs(_FOOTER_RECORD_BATCHES, _BLOCK)]
        except FlatbufferError as error:
            raise self._corrupt(f"its footer cannot be decoded: {error}") from error
        for offset, metadata_bytes, body_bytes in blocks:
            sound = offset > 0 and metadata_bytes >= _PREFIX.size and body_bytes >= 0
            if not sound or offset + metadata_bytes + body_bytes > end:
                raise self._corrupt("its footer refers to bytes outside the file")
        return blocks

    def _rows_of(self, block: _Block) -> int:
        message = self._source.read(block.offset, block.metadata_bytes)
        marker, _ = _PREFIX.unpack_from(message)
        # Before version 0.15 there was only the length.
        start = _PREFIX.size if marker == _CONTINUATION else _PREFIX.size // 2
        try:
            batch = Table.root(message[start:]).table(_MESSAGE_HEADER)
            rows = batch.number(_RECORD_BATCH_LENGTH, "q")
            # Nodes stand in depth-first order, so the first one is a whole column.
            columns = [length for length, _ in islice(batch.structs(_RECORD_BATCH_NODES, _FIELD_NODE), 1)]
        except FlatbufferError as error:
            raise self._corrupt(f"the record batch at byte {block.offset} cannot be decoded: {error}") from error
        if not 0 <= rows <= _MOST_ROWS:
            raise self._corrupt(f"the record batch at byte {block.offset} claims to have {rows} rows")
        if columns not in ([], [rows]):
            found = f"{rows} rows, its first column {columns[0]}"
            raise self._corrupt(f"the record batch at byte {block.offset} claims to have {found}")
        return rows

    def _corrupt(self, what: str) -> CorruptFileError:
        location = self._source.location
        return CorruptFileError(f"{location}: is a corrupt Arrow file: {what}", location=location)
