"""Reads flat columns with compiled code, and pyarrow where that cannot: as a reader that looks like pyarrow's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from formatkit.batches.arrow.decimals import check_decimals
from formatkit.contract.storage import ByteSource
from formatkit.formats.parquet.column_decoder import ColumnDecoder, Step
from formatkit.formats.parquet.columns_together import decode_together
from formatkit.formats.parquet.failures import corrupt
from formatkit.formats.parquet.flat_columns import PAYBACK, FlatColumn, flat_column, has_usual_pages
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.page_content import UnsuitableError
from formatkit.formats.parquet.page_reader import PageReader
from formatkit.formats.parquet.projection import Projection
from formatkit.formats.parquet.pruning.page_index import ChunkIndex
from formatkit.formats.parquet.read.page_check import CheckedReader, PageChecks

__all__ = ["FlatReader", "choose_flat"]

_LEAST_ROWS = 4096
"""Batches end with their row group, so smaller ones are left to pyarrow, which puts several into one batch."""

_MOST_BYTES = 1 << 30
"""Longer parts of a column are not joined: offsets of 32 bits would not reach the end of their texts."""

_WINDOW_BYTES = 8 * 1024 * 1024
_LEAST_WINDOW = 128 * 1024
_MOST_WINDOW = 1024 * 1024
"""So much of all columns together is read at once, and so much of one."""


def choose_flat(
    footer: Footer, projection: Projection, row_groups: Sequence[RowGroup], columns: Sequence[int] | None = None
) -> dict[int, FlatColumn]:
    """Those of some columns of a projection that are better decoded by compiled code, by leaf."""
    if footer.decryption is not None or any(row_group.rows < _LEAST_ROWS for row_group in row_groups):
        return {}
    numbers = range(len(projection.leaves_of)) if columns is None else columns
    found = [flat for column in numbers if (flat := flat_column(projection, column)) is not None]
    found = [flat for flat in found if all(_is_usual(footer, row_group, flat.leaf) for row_group in row_groups)]
    sizes = (group.metadata.column(flat.leaf).total_uncompressed_size for flat in found for group in row_groups)
    return {flat.leaf: flat for flat in found} if found and PAYBACK.reached(sum(sizes)) else {}


def _is_usual(footer: Footer, row_group: RowGroup, leaf: int) -> bool:
    record = footer.chunk_record(row_group, leaf)
    return record is not None and has_usual_pages(row_group.metadata.column(leaf), record.codec)


class FlatReader:
    """Flat columns of a file; the digits of decimals are checked.

    Args:
        source: The file.
        file: The same, open.
        footer: Its footer.
        columns: The columns, by leaf.
        open_decoder: Opens pyarrow's reader of these leaves.
        counters: Where to count.
        pool: Where the memory of arrays comes from.
        threads: On how many threads to decode.
    """

    def __init__(
        self,
        source: ByteSource,
        file: BinaryIO | Any,
        footer: Footer,
        columns: Mapping[int, FlatColumn],
        open_decoder: Callable[[], CheckedReader],
        counters: MutableMapping[str, int],
        pool: pa.MemoryPool | None = None,
        threads: int = 1,
    ) -> None:
        self._threads = threads
        self._source = source
        self._file = file
        self._footer = footer
        self._checks = PageChecks(footer)
        self._columns = columns
        self._open_decoder = open_decoder
        self._counters = counters
        self._pool = pool

    def iter_batches(
        self, batch_size: int, row_groups: Sequence[int], column_indices: Sequence[int], *, use_threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Batches of some leaves of some row groups; they end where their row group does."""
        names = [str(leaf) for leaf in column_indices]
        window = min(max(_WINDOW_BYTES // len(names), _LEAST_WINDOW), _MOST_WINDOW)
        for row_group in self._footer.row_groups_at(set(row_groups)):
            if isinstance(self._file, pa.NativeFile):
                self._checks.require_sound(self._file, [row_group], column_indices)
            columns = [self._column(row_group, self._columns[leaf], window) for leaf in column_indices]
            for start in range(0, row_group.rows, batch_size):
                rows = min(batch_size, row_group.rows - start)
                begun = ((column, column.begin(rows)) for column in columns)
                decode_together([(column, step) for column, step in begun if step is not None], self._threads)
                yield from _batches([column.end(rows) for column in columns], names)

    def _column(self, row_group: RowGroup, flat: FlatColumn, window: int) -> _Column:
        chunk = row_group.metadata.column(flat.leaf)
        record = self._footer.chunk_record(row_group, flat.leaf)
        assert record is not None  # noqa: S101 - `choose_flat` has seen it
        index = ChunkIndex(self._source, chunk, record, row_group.rows)
        check = self._checks.part(row_group, flat.leaf)
        pages = PageReader(self._source, index, row_group.rows, check, optional=flat.optional)
        value_bytes = chunk.total_uncompressed_size / row_group.rows
        decoder = ColumnDecoder(pages, flat.element, flat.kind, row_group.rows, value_bytes, window, self._pool)
        return _Column(decoder, chunk.total_uncompressed_size, partial(self._by_pyarrow, row_group, flat))

    def _by_pyarrow(self, row_group: RowGroup, flat: FlatColumn) -> Iterator[pa.Array[Any]]:
        """All rows of a column, by pyarrow: it is the one to tell what is wrong with it, if anything is."""
        self._counters["columns_left_to_pyarrow"] = self._counters.get("columns_left_to_pyarrow", 0) + 1
        rows = 0
        for batch in self._open_decoder().iter_batches(_LEAST_ROWS, [row_group.index], [flat.leaf], use_threads=False):
            rows += batch.num_rows
            check_decimals(batch.column(0), flat.element.name)
            yield batch.column(0)
        if rows != row_group.rows:
            message = f"row group {row_group.index} promises {row_group.rows} rows and holds {rows}"
            raise corrupt(self._source.location, message)


def _batches(columns: Sequence[Sequence[pa.Array[Any]]], names: list[str]) -> Iterable[pa.RecordBatch]:
    """The same rows of all columns, some of which may be in parts."""
    if all(len(parts) == 1 for parts in columns):
        return (pa.RecordBatch.from_arrays([parts[0] for parts in columns], names),)
    return pa.Table.from_arrays([pa.chunked_array(parts) for parts in columns], names).to_batches()


class _Column:
    """A column of a row group while it is read.

    Args:
        decoder: Decodes it.
        weight: How many bytes are decoded.
        otherwise: Decodes it from the first row on, if the decoder cannot.
    """

    def __init__(self, decoder: ColumnDecoder, weight: int, otherwise: Callable[[], Iterator[pa.Array[Any]]]) -> None:
        self._decoder: ColumnDecoder | None = decoder
        self._otherwise = otherwise
        self._rest: Iterator[pa.Array[Any]] | None = None
        self._pending: list[pa.Array[Any]] = []
        self._done = 0
        self.weight = weight

    def begin(self, rows: int) -> Step | None:
        """Make room for the next rows; None if it is not compiled code that decodes them."""
        try:
            return None if self._decoder is None else self._decoder.begin(rows)
        except UnsuitableError:
            self._decoder = None
            return None

    def use_tools_of_thread(self) -> None:
        if self._decoder is not None:
            self._decoder.use_tools_of_thread()

    def go_on(self, outcome: int) -> None:
        try:
            if self._decoder is not None:
                self._decoder.go_on(outcome)
        except UnsuitableError:
            self._decoder = None

    def end(self, rows: int) -> list[pa.Array[Any]]:
        """The rows that were begun: in parts, if one array cannot hold them."""
        if self._decoder is not None:
            try:
                array = self._decoder.end()
            except UnsuitableError:
                self._decoder = None
            else:
                self._done += rows
                return [array]
        if self._rest is None:
            self._rest = self._otherwise()
            self._taken(self._done)
        parts = self._taken(rows)
        return parts if sum(part.nbytes for part in parts) > _MOST_BYTES else [pa.concat_arrays(parts)]

    def _taken(self, rows: int) -> list[pa.Array[Any]]:
        """The next rows of those that are decoded otherwise, in pieces."""
        taken: list[pa.Array[Any]] = []
        while rows > 0:
            array = self._pending.pop() if self._pending else next(self._rest or iter(()))
            if len(array) > rows:
                self._pending.append(array.slice(rows))
                array = array.slice(0, rows)
            taken.append(array)
            rows -= len(array)
        return taken
