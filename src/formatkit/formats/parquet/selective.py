"""Reads the rows that match a predicate, and decodes as little else as it can.

For each row group: pages that cannot match are ruled out by the page index; the columns of the predicate are decoded
where it may match, and filtered; the other columns are decoded for what is left, by pages where that is less work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import closing
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.predicate import compile_predicate
from formatkit.batches.arrow.rechunking import is_overflow, rechunked
from formatkit.contract.fields import field_path
from formatkit.contract.storage import ByteSource
from formatkit.formats.parquet.announcing import announce_chunks, announce_indexes
from formatkit.formats.parquet.column_stream import OpenFile, RowGroupColumns, picked
from formatkit.formats.parquet.decoding import HowToDecode, decode
from formatkit.formats.parquet.failures import reading
from formatkit.formats.parquet.footer import Footer
from formatkit.formats.parquet.page_select import PageFiles
from formatkit.formats.parquet.projection import Projection
from formatkit.formats.parquet.pruning.page_index import PageIndexError
from formatkit.formats.parquet.pruning.pages import rows_that_may_match
from formatkit.formats.parquet.pruning.row_groups import RowGroupRead
from formatkit.formats.parquet.row_ranges import RowNumbers, marked_rows

__all__ = ["decode_matching"]

_SMALL_ROW_GROUP = 4096
"""Row groups of fewer rows are decoded together and filtered, because there is nothing to gain in any single one."""

_Step = tuple[str, list[RowGroupRead]]
"""How some row groups that follow one another are read, and these."""

_KEPT_BYTES = 16 * 1024 * 1024
"""Up to so many bytes of filtered columns are kept until the other columns are decoded; beyond, decode them again."""


def decode_matching(
    source: ByteSource,
    footer: Footer,
    projection: Projection,
    schema: Schema,
    predicate: BooleanExpression,
    reads: Sequence[RowGroupRead],
    how: HowToDecode,
    counters: MutableMapping[str, int],
) -> Iterator[pa.RecordBatch]:
    """The rows of the row groups for which `predicate`, bound to `schema`, is true, in file order.

    What is sure to be read is announced before the first of them is asked for.

    Args:
        source: The file.
        footer: Its footer.
        projection: What to decode.
        schema: The same as a schema; the predicate uses its ids.
        predicate: Bound, and free of `Not`.
        reads: The row groups.
        how: How to decode them.
        counters: Where to count what is done.
    """
    tested = _tested_columns(projection, schema, predicate)
    steps = [(strategy, list(group)) for strategy, group in groupby(reads, lambda read: _strategy(read, tested))]
    _announce(source, footer, projection, tested, steps)
    by_pages = _Matching(projection, schema, predicate, tested, how.batch_rows)
    filtered = any(strategy == "filter" for strategy, _ in steps)
    keep = ArrowBatch().filter(schema, predicate if filtered else AlwaysTrue())
    return _decode(source, footer, projection, steps, by_pages, keep, how, counters)


def _announce(
    source: ByteSource, footer: Footer, projection: Projection, tested: Sequence[int], steps: Sequence[_Step]
) -> None:
    first = [leaf for column in tested for leaf in projection.leaves_of[column]]
    rest = [leaf for leaf in projection.leaves if leaf not in first]
    for strategy, reads in steps:
        row_groups = footer.row_groups_at({read.index for read in reads})
        if strategy == "select":
            announce_indexes(source, footer, row_groups, first, rest)
        else:
            announce_chunks(source, row_groups, projection.leaves)


def _decode(
    source: ByteSource,
    footer: Footer,
    projection: Projection,
    steps: Sequence[_Step],
    by_pages: _Matching,
    keep: Callable[[pa.RecordBatch], pa.RecordBatch],
    how: HowToDecode,
    counters: MutableMapping[str, int],
) -> Iterator[pa.RecordBatch]:
    batch_rows = how.batch_rows
    with reading(source.location), closing(source.open()) as file:
        page_files = PageFiles(source, footer)
        row_groups = {row_group.index: row_group for row_group in footer.row_groups}
        opened = OpenFile(
            source=source,
            file=file,
            footer=footer,
            projection=projection,
            page_files=page_files,
            counters=counters,
            threads=how.threads,
        )
        for strategy, reads in steps:
            if strategy == "select":
                chosen = ((RowGroupColumns(opened, row_groups[read.index]), read) for read in reads)
                for search in _one_ahead(by_pages.search(*each) for each in chosen):
                    yield from by_pages.matching(search)
                continue
            batches = decode(source, footer, projection, reads, how, counters)
            yield from batches if strategy == "all" else _not_empty(rechunked(map(keep, batches), batch_rows))


def _one_ahead(searches: Iterator[_Search]) -> Iterator[_Search]:
    """The same, each of them when the next one has begun, so that its bytes are under way."""
    current = next(searches, None)
    while current is not None:
        following = next(searches, None)
        yield current
        current = following


def _strategy(read: RowGroupRead, tested: Sequence[int]) -> str:
    if read.all_match:
        return "all"
    return "select" if tested and read.rows >= _SMALL_ROW_GROUP else "filter"


def _not_empty(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


def _tested_columns(projection: Projection, schema: Schema, predicate: BooleanExpression) -> list[int]:
    """The columns that the predicate needs, by number; none if some of them are not stored."""
    tested = sorted({field_path(schema, field_id)[0][0] for field_id in extract_field_ids(predicate)})
    return tested if all(number < len(projection.decoded) and projection.decoded[number] for number in tested) else []


class _Search(NamedTuple):
    """A row group of which the columns of the predicate are being read.

    Attributes:
        columns: Its columns.
        read: Which one it is.
        rows: Where it may match; None for everywhere.
        tested: The columns of the predicate there.
    """

    columns: RowGroupColumns
    read: RowGroupRead
    rows: RowNumbers | None
    tested: Iterator[pa.RecordBatch]


class _Matching:
    """One predicate on one projection."""

    def __init__(
        self, projection: Projection, schema: Schema, predicate: BooleanExpression, tested: list[int], batch_rows: int
    ) -> None:
        self._projection = projection
        self._converted = projection.without_conversions()
        self._predicate = predicate
        self._tested = tested
        self._rest = [number for number, decoded in enumerate(projection.decoded) if decoded and number not in tested]
        self._batch_rows = batch_rows
        self._mask = compile_predicate(Schema(*(schema.fields[number] for number in tested)), predicate)

    def search(self, columns: RowGroupColumns, read: RowGroupRead) -> _Search:
        """Begin with a row group: rule pages out, and announce those that are left."""
        candidates = rows_that_may_match(
            self._predicate, columns.footer, self._projection.columns, columns.index, read.rows
        )
        if not candidates.count:
            return _Search(columns, read, None, iter(()))
        rows = None if candidates.count == read.rows else candidates.numbers()
        return _Search(columns, read, rows, columns.decoded(self._tested, rows))

    def matching(self, search: _Search) -> Iterator[pa.RecordBatch]:
        """The matching rows of one row group."""
        columns, read = search.columns, search.read
        if not self._rest:
            complete = (
                self._converted.batch(batch.columns, len(numbers), read.first_row, numbers)
                for numbers, batch in self._resumed_matches(search)
            )
            yield from rechunked(complete, self._batch_rows)
            return
        while True:
            try:
                found, kept = self._all_matches(search)
                break
            except PageIndexError as error:
                search = self._without_index(search, error)
        if len(found):
            yield from self._completed(columns, read, found, kept)

    def _without_index(self, search: _Search, error: PageIndexError) -> _Search:
        """Begin again, and read a chunk as a whole whose page index is wrong."""
        error.index.drop()
        return self.search(search.columns, search.read)

    def _all_matches(self, search: _Search) -> tuple[RowNumbers, list[pa.RecordBatch] | None]:
        """The numbers of all matching rows, and the columns of the predicate at them unless these are large."""
        found: list[RowNumbers] = [np.empty(0, np.int64)]
        kept: list[pa.RecordBatch] | None = []
        kept_bytes = 0
        for numbers, batch in self._matches(search):
            found.append(numbers)
            kept_bytes += batch.nbytes
            if kept is not None:
                kept.append(batch)
            if kept_bytes > _KEPT_BYTES:
                kept = None
        return np.concatenate(found), kept

    def _resumed_matches(self, search: _Search) -> Iterator[tuple[RowNumbers, pa.RecordBatch]]:
        """The same as they are found. Where a page index is wrong, behind the last row that was found."""
        last = -1
        while True:
            try:
                for numbers, batch in self._matches(search):
                    first = int(np.searchsorted(numbers, last, side="right"))
                    if first < len(numbers):
                        last = int(numbers[-1])
                        yield numbers[first:], batch.slice(first)
                return
            except PageIndexError as error:
                search = self._without_index(search, error)

    def _matches(self, search: _Search) -> Iterator[tuple[RowNumbers, pa.RecordBatch]]:
        """The numbers of matching rows, and the columns of the predicate at them."""
        rows, position = search.rows, 0
        for batch in search.tested:
            end = position + batch.num_rows
            places = marked_rows(self._mask(batch))
            if len(places):
                numbers = places + position if rows is None else rows[position:end][places]
                yield numbers, picked(batch, places)
            position = end

    def _completed(
        self, columns: RowGroupColumns, read: RowGroupRead, rows: RowNumbers, kept: list[pa.RecordBatch] | None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of all columns at the matching rows."""
        batch_rows, position = self._batch_rows, 0
        while position < len(rows):
            try:
                for batch in self._in_step(columns, read, rows[position:], kept, batch_rows):
                    position += batch.num_rows
                    yield batch
            except PageIndexError as error:
                error.index.drop()
                kept = None if position else kept
            except pa.ArrowException as error:
                if batch_rows == 1 or not is_overflow(error):
                    raise
                # The texts of so many rows do not fit into one array.
                batch_rows //= 2
                kept = None

    def _in_step(
        self,
        columns: RowGroupColumns,
        read: RowGroupRead,
        rows: RowNumbers,
        kept: list[pa.RecordBatch] | None,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of so many rows; raises what Arrow says if these do not fit into one."""
        missing = self._rest if kept is not None else sorted(self._tested + self._rest)
        streams = [columns.decoded(missing, rows, batch_rows)]
        order = np.argsort(missing)
        if kept is not None:
            streams.append(rechunked(kept, batch_rows, exactly=True))
            order = np.argsort(missing + self._tested)
        position = 0
        for parts in zip(*streams, strict=True):
            arrays = [array for part in parts for array in part.columns]
            numbers = rows[position : position + parts[0].num_rows]
            position += len(numbers)
            yield self._converted.batch([arrays[place] for place in order], len(numbers), read.first_row, numbers)
