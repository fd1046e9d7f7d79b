"""Checks pages before they are decoded: their headers, their column chunk and their row group must agree.

No checksum covers the header of a page, and pyarrow believes it: a count that is one too high moves all rows behind it.
The headers of a chunk are followed from its first byte to its last. They must hold as many values as the footer says,
which is one for each row unless the column is repeated, and a page must be able to hold what its header claims.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.batches.compiled.loading import are_ready, kernels
from formatkit.errors import UnsupportedError
from formatkit.formats.parquet.failures import corrupt, no_key
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.kernels.numbers import Chunk, Fault
from formatkit.formats.parquet.page_content import KERNELS, address
from formatkit.formats.parquet.read.page_headers import check_pages, page_digit

__all__ = ["CheckedFile", "CheckedReader", "ChunkPages", "PageChecks"]

# Pages are counted in digits of six bits, one for each encoding: the rest is that of the sum of the digits.
_ALL_PAGES = 63

_HOP_BYTES = 4 * 1024
"""So much is read of each page of a long chunk."""

_WHOLE_BYTES = 1024 * 1024
"""Row groups that are no longer than this together are read at once."""

_WIDTHS = {"BOOLEAN": -1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 0}
_DICTIONARY, _BIT_PACKED = 1 << 2 | 1 << 8, 1 << 4
_DIFFERENCES, _LENGTHS, _PREFIXES, _SPLIT = 1 << 5, 1 << 6, 1 << 7, 1 << 9
_ENCODINGS = {
    "PLAIN": 1 << 0,
    "PLAIN_DICTIONARY": _DICTIONARY,
    "RLE": 1 << 3,
    "BIT_PACKED": _BIT_PACKED,
    "DELTA_BINARY_PACKED": _DIFFERENCES,
    "DELTA_LENGTH_BYTE_ARRAY": _LENGTHS,
    "DELTA_BYTE_ARRAY": _PREFIXES,
    "RLE_DICTIONARY": _DICTIONARY,
    "BYTE_STREAM_SPLIT": _SPLIT,
}
_KNOWN = 1 | 1 << 3 | _DICTIONARY | _BIT_PACKED | _DIFFERENCES | _LENGTHS | _PREFIXES | _SPLIT
_NEWER = _DIFFERENCES | _LENGTHS | _PREFIXES | _SPLIT
_ALWAYS_LISTED = _BIT_PACKED | _LENGTHS | _PREFIXES | _SPLIT
"""Pages in these can be read as pages in another encoding; levels as packed bits were written long ago only."""


_WORDS = {
    Fault.HEADER: "there is no header of a page at byte {at}",
    Fault.SIZES: "the page at byte {at} cannot have the length that its header claims",
    Fault.CHAIN: "the page at byte {at} does not fit its column chunk",
    Fault.COUNT: "its pages have another number of values than its column chunk",
    Fault.LEVELS: "the page at byte {at} has other levels than its header claims",
    Fault.VALUES: "the page at byte {at} has another number of values than its header claims",
    Fault.DICTIONARY: "the dictionary page at byte {at} is not what its header claims",
}

_CRYPTO_METADATA = 8
"""The field of a column chunk that is encrypted."""

_SHORT_CHUNKS = re.compile(r"parquet-mr version (0\.|1\.[01]\.|1\.2\.[0-8]\b)")
"""Writers that did not count the header of the dictionary (PARQUET-816)."""

_PADDING_OF_FASTPARQUET = 8
"""How many zeros it adds to each page of version 1; its oldest versions did not."""


class _Leaf(NamedTuple):
    """How the values of a leaf are stored."""

    definition_bits: int
    repetition_bits: int
    width: int
    padding: int


class ChunkPages:
    """The pages of some column chunks, as far as they were seen.

    Args:
        footer: The footer of the file.
        chunks: Which chunks they are: a row group, and a leaf of it.
        numbers: The numbers of each chunk: see `kernels.numbers.Chunk`.
    """

    def __init__(
        self,
        footer: Footer,
        chunks: Sequence[tuple[RowGroup, int]],
        numbers: Sequence[Sequence[int]] | npt.NDArray[np.int64],
    ) -> None:
        self._footer = footer
        self._chunks = chunks
        self._table: npt.NDArray[np.int64] = np.array(numbers, np.int64)
        self._header = np.empty(12, np.int64)

    @property
    def chunks(self) -> Sequence[tuple[RowGroup, int]]:
        """Which chunks they are."""
        return self._chunks

    @property
    def table(self) -> npt.NDArray[np.int64]:
        """The numbers of each chunk."""
        return self._table

    def see(self, offset: int, data: Any, first: int = 0, end: int | None = None) -> int:
        """Check the pages whose headers are in `data`, which begins at `offset` of the file.

        Args:
            offset: Where the bytes begin in the file.
            data: The bytes.
            first: The first of the chunks to look at.
            end: The first chunk behind them; None for all.

        Returns:
            How many of the chunks were not seen to their end. Raises `CorruptFileError` for one that is wrong.
        """
        rows = self._table[first:end]
        buffer = pa.py_buffer(data)
        if are_ready(KERNELS):
            table, header, at = address(rows), address(self._header), buffer.address
            waiting = kernels(KERNELS).check_pages(at, offset, offset + buffer.size, table, len(rows), header)
        else:
            waiting = check_pages(memoryview(buffer), offset, rows)
        if waiting and rows[:, Chunk.FAULT].any():
            raise self._fault(first + int(np.flatnonzero(rows[:, Chunk.FAULT])[0]))
        return int(waiting)

    def require_end(self) -> None:
        """Raise `CorruptFileError` if pages stand behind those that hold all values."""
        left = np.flatnonzero(self._table[:, Chunk.AT] != self._table[:, Chunk.END])
        if len(left):
            self._table[left[0], Chunk.FAULT] = Fault.COUNT
            raise self._fault(int(left[0]))

    def _fault(self, number: int) -> Exception:
        row = self._table[number]
        row_group, leaf = self._chunks[number]
        record = self._footer.chunk_record(row_group, leaf)
        if record is not None and _CRYPTO_METADATA in record.indexes:
            return no_key(self._footer.location)
        name = row_group.metadata.column(leaf).path_in_schema
        words = _WORDS[Fault(int(row[Chunk.FAULT]))].format(at=int(row[Chunk.AT]))
        return corrupt(self._footer.location, f"column {name!r} of row group {row_group.index}: {words}")


class PageChecks:
    """Checks the pages of one file."""

    def __init__(self, footer: Footer) -> None:
        self._footer = footer
        self._leaves: dict[int, _Leaf] = {}
        self._sound_encodings: set[tuple[int, int]] = set()
        self._padding = _PADDING_OF_FASTPARQUET if footer.created_by.startswith("fastparquet") else 0
        self._have_odd_levels = footer.created_by.startswith("impala")
        # Headers of encrypted pages are authenticated.
        self._is_off = footer.decryption is not None or bool(_SHORT_CHUNKS.match(footer.created_by))

    @property
    def are_off(self) -> bool:
        """Whether pages of this file cannot be checked."""
        return self._is_off

    @property
    def have_odd_levels(self) -> bool:
        """Whether there may be more levels than values (Impala 2.5), or packed ones that no list has."""
        return self._have_odd_levels

    def chunks(self, row_groups: Sequence[RowGroup], leaves: Sequence[int]) -> ChunkPages:
        """The pages of some leaves of row groups, one row group after the other.

        Raises `CorruptFileError` if a column that is not repeated has other values than its row group has rows.
        """
        places = [(row_group, leaf) for row_group in row_groups for leaf in leaves]
        extents = np.array([row_group.extent(leaf) for row_group, leaf in places], np.int64).reshape(-1, 4)
        codec = np.array([self._footer.codec(*place) for place in places], np.int64)
        stored = np.tile(np.array([self._leaf(leaf) for leaf in leaves]), (len(row_groups), 1))
        start, length, uncompressed, values = extents.T
        rows = np.repeat(np.array([row_group.rows for row_group in row_groups], np.int64), len(leaves))
        wrong = np.flatnonzero((values != rows) & (stored[:, 1] == 0))
        if len(wrong):
            raise self._other_rows(*places[wrong[0]])
        nothing = np.zeros(len(places), np.int64)
        numbers = np.column_stack((start, start, start + length, values, uncompressed, codec, stored, *[nothing] * 3))
        return ChunkPages(self._footer, places, numbers)

    def part(self, row_group: RowGroup, leaf: int) -> Callable[[int, int, int], ChunkPages] | None:
        """Makes checks of parts of a chunk, by where they begin and end and how many values they have.

        None where compiled code is to leave a page that it does not understand to pyarrow: it knows no padding.
        """
        if self._is_off or self._padding or self._have_odd_levels:
            return None
        return lambda start, end, values: ChunkPages(
            self._footer, [(row_group, leaf)], [self.numbers(row_group, leaf, start, end, values)]
        )

    def numbers(self, row_group: RowGroup, leaf: int, start: int, end: int, values: int) -> Sequence[int]:
        """What is checked of pages of a chunk that have so many values."""
        stored, extent = self._leaf(leaf), row_group.extent(leaf)
        if not stored.repetition_bits and extent.values != row_group.rows:
            raise self._other_rows(row_group, leaf)
        return (
            start,
            start,
            end,
            values,
            extent.uncompressed_length,
            self._footer.codec(row_group, leaf),
            *stored,
            0,
            0,
            0,
        )

    def _other_rows(self, row_group: RowGroup, leaf: int) -> Exception:
        name, values = row_group.metadata.column(leaf).path_in_schema, row_group.extent(leaf).values
        message = f"column {name!r} of row group {row_group.index} has {values} values, its row group {row_group.rows}"
        return corrupt(self._footer.location, f"{message} rows")

    def _leaf(self, leaf: int) -> _Leaf:
        found = self._leaves.get(leaf)
        if found is None:
            column = self._footer.metadata.schema.column(leaf)
            width = _WIDTHS.get(column.physical_type, column.length or 0)
            bits = column.max_definition_level.bit_length(), column.max_repetition_level.bit_length()
            found = self._leaves[leaf] = _Leaf(*bits, width, self._padding)
        return found

    def require_sound(self, file: Any, row_groups: Sequence[RowGroup], leaves: Sequence[int]) -> None:
        """Check all pages of some chunks by reading what is needed of them. Raises `CorruptFileError`."""
        if self._is_off or not row_groups:
            return
        pages = self.chunks(row_groups, leaves)
        starts, ends = (pages.table[:, field].reshape(-1, len(leaves)) for field in (Chunk.START, Chunk.END))
        for first, end in _together(starts.min(axis=1).tolist(), ends.max(axis=1).tolist()):
            chunks = range(first * len(leaves), end * len(leaves))
            start, stop = int(starts[first:end].min()), int(ends[first:end].max())
            if stop - start > _WHOLE_BYTES or pages.see(
                start, file.read_at(stop - start, start), chunks.start, chunks.stop
            ):
                for number in chunks:
                    _hop(pages, file, number)
        self.require_encodings(pages)

    def require_encodings(self, pages: ChunkPages, chunks: slice = slice(None), *, are_whole: bool = True) -> None:
        """Raise `CorruptFileError` if pages that were seen cannot be encoded as they say.

        Args:
            pages: The pages.
            chunks: Which of the chunks.
            are_whole: Whether these are all pages of their chunks.
        """
        found = pages.table[chunks, Chunk.ENCODINGS : Chunk.PAGES + 1].tolist()
        for (row_group, leaf), (encodings, counted) in zip(pages.chunks[chunks], found, strict=True):
            # Row groups of a file are written in the same way, most of the time.
            if (leaf, encodings) not in self._sound_encodings:
                self._require_listed(row_group, leaf, encodings)
                self._sound_encodings.add((leaf, encodings))
            if are_whole:
                self._require_counts(row_group, leaf, counted)

    def _require_counts(self, row_group: RowGroup, leaf: int, counted: int) -> None:
        """Raise `CorruptFileError` if the footer counts as many pages, but others of them in an encoding.

        That is what a changed header looks like. A footer that counts more or fewer pages is wrong about them, and rows
        do not depend on it.
        """
        record = self._footer.chunk_record(row_group, leaf)
        encodings = record.page_encodings if record else ()
        said = sum(count << page_digit(encoding) for encoding, count in encodings)
        if said == counted or said % _ALL_PAGES != counted % _ALL_PAGES:
            return
        column = row_group.metadata.column(leaf)
        if sum(count for _, count in encodings) <= column.num_values:
            name = column.path_in_schema
            message = (
                f"column {name!r} of row group {row_group.index} has pages in other encodings than its footer says"
            )
            raise corrupt(self._footer.location, message)

    def _require_listed(self, row_group: RowGroup, leaf: int, found: int) -> None:
        chunk = row_group.metadata.column(leaf)
        if found & ~_KNOWN and "UNKNOWN" in chunk.encodings:
            message = f"{self._footer.location}: column {chunk.path_in_schema!r} is in an encoding without decoder"
            raise UnsupportedError(f"{message}; leave the column out", location=self._footer.location)
        listed = sum({_ENCODINGS.get(name, 0) for name in chunk.encodings})
        # Lists of some writers are the same for all chunks, and lack dictionaries and differences. These never have
        # the newer encodings, so one of them in a page, or in the list, means that the list is to be believed.
        believed = _ALWAYS_LISTED if not listed & _NEWER else ~0
        if self._have_odd_levels:
            believed &= ~_BIT_PACKED
        if found & believed & ~listed:
            message = f"column {chunk.path_in_schema!r} of row group {row_group.index} has a page in another encoding"
            raise corrupt(self._footer.location, f"{message} than its column chunk: {', '.join(chunk.encodings)}")


def _together(starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Row groups that are read at once: the first, and the first behind them."""
    first = 0
    for number in range(1, len(starts) + 1):
        if number == len(starts) or not starts[first] <= ends[number] <= starts[first] + _WHOLE_BYTES:
            yield first, number
            first = number


def _hop(pages: ChunkPages, file: Any, number: int) -> None:
    """See all pages of a chunk, most of their bytes excepted."""
    row, size = pages.table[number], _HOP_BYTES
    end = int(row[Chunk.END])
    while (at := int(row[Chunk.AT])) < end:
        pages.see(at, file.read_at(min(size, end - at), at), number, number + 1)
        size = size * 4 if row[Chunk.AT] == at else _HOP_BYTES


class CheckedFile(io.RawIOBase):
    """A file whose pages are checked when somebody reads them, for storage of which nothing is read twice.

    Args:
        file: The file.
        checks: Check.
        pages: The chunks that are read.
    """

    def __init__(self, file: Any, checks: PageChecks, pages: ChunkPages) -> None:
        super().__init__()
        self._file = file
        self._checks = checks
        self._pages = pages
        self._order = np.argsort(pages.table[:, Chunk.START]).tolist()
        self._starts = pages.table[self._order, Chunk.START].tolist()
        self._carried: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def read(self, size: int | None = -1, /) -> bytes:
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int | None = -1, /) -> pa.Buffer:
        """Like `read`, without a copy where the file allows that."""
        offset = self.tell()
        take = getattr(self._file, "read_buffer", None) or self._file.read
        found = pa.py_buffer(take(size))
        self._see(offset, found)
        return found

    def _see(self, offset: int, data: pa.Buffer) -> None:
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return
        number = self._order[place]
        at, end = (int(self._pages.table[number, field]) for field in (Chunk.AT, Chunk.END))
        carried = self._carried.pop(number, b"")
        if carried and offset == at + len(carried):
            offset, data = at, pa.py_buffer(carried + data.to_pybytes())
        if not offset <= at < min(offset + data.size, end):
            return
        self._pages.see(offset, data, number, number + 1)
        at = int(self._pages.table[number, Chunk.AT])
        if at == end:
            self._checks.require_encodings(self._pages, slice(number, number + 1))
        if at < min(offset + data.size, end):
            self._carried[number] = data.slice(at - offset).to_pybytes()


class CheckedReader:
    """pyarrow's reader of leaves by index, whose pages are checked before their rows are handed out.

    Args:
        reader: Decodes.
        checks: Check.
        footer: The footer of the file.
        file: What the reader reads; what it reads of a `CheckedFile` is checked on the way.
        mend: Opens a file of some leaves of one row group with the pages that pyarrow cannot decode in another form;
            None if there are no such pages.
    """

    def __init__(
        self,
        reader: pq.ParquetReader,
        checks: PageChecks,
        footer: Footer,
        file: BinaryIO | Any,
        mend: Callable[[RowGroup, Sequence[int]], pq.ParquetReader | None],
    ) -> None:
        self._reader = reader
        self._checks = checks
        self._footer = footer
        self._file = file
        self._mend = mend

    def iter_batches(
        self, batch_size: int, row_groups: Sequence[int], column_indices: Sequence[int], *, use_threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Batches of some leaves of some row groups."""
        rows, failure = 0, None
        try:
            for batch in self._checked(batch_size, row_groups, column_indices, use_threads=use_threads):
                rows += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as error:
            # A failure of the storage has a number; pyarrow reports broken pages without one.
            if isinstance(error, pa.ArrowCancelled | MemoryError) or getattr(error, "errno", None) is not None:
                raise
            failure = error
        chosen = self._footer.row_groups_at(set(row_groups))
        if failure is not None or rows < sum(row_group.rows for row_group in chosen):
            yield from self._mended(batch_size, chosen, column_indices, rows, failure)

    def _mended(
        self,
        batch_size: int,
        row_groups: Sequence[RowGroup],
        leaves: Sequence[int],
        skipped: int,
        failure: Exception | None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows behind the first ones, one row group after the other, as far as there is something to mend.

        What pyarrow failed to decode can be rows of several row groups, and any of them can be the cause.
        """
        is_mended = False
        for row_group in row_groups:
            if skipped >= row_group.rows:
                skipped -= row_group.rows
                continue
            mended = self._mend(row_group, leaves)
            if mended is None and failure is None and not is_mended:
                return
            is_mended |= mended is not None
            reader, number = (self._reader, row_group.index) if mended is None else (mended, 0)
            if isinstance(self._file, pa.NativeFile):
                self._checks.require_sound(self._file, [row_group], leaves)
            found = 0
            for batch in reader.iter_batches(batch_size, [number], list(leaves), use_threads=False):
                found += batch.num_rows
                if skipped < batch.num_rows:
                    yield batch.slice(skipped)
                skipped = max(skipped - batch.num_rows, 0)
            if found != row_group.rows:
                return
        if failure is not None and not is_mended:
            raise failure

    def _checked(
        self, batch_size: int, row_groups: Sequence[int], column_indices: Sequence[int], *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        batches = self._reader.iter_batches(batch_size, list(row_groups), list(column_indices), use_threads=use_threads)
        if not isinstance(self._file, pa.NativeFile):
            yield from batches
            return
        unchecked = iter(self._footer.row_groups_at(set(row_groups)))
        rows = checked = 0
        while True:
            found: list[RowGroup] = []
            while checked < rows + batch_size and (row_group := next(unchecked, None)) is not None:
                found.append(row_group)
                checked += row_group.rows
            self._checks.require_sound(self._file, found, column_indices)
            if (batch := next(batches, None)) is None:
                return
            rows += batch.num_rows
            yield batch
