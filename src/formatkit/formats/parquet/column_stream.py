"""Decodes columns of one row group: all of their rows, or some of them by decoding only the pages that hold these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.batches.arrow.rechunking import is_overflow, rechunked
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.formats.parquet.announcing import in_order_of_need
from formatkit.formats.parquet.decoding import open_decoder, open_page_file
from formatkit.formats.parquet.failures import corrupt
from formatkit.formats.parquet.flat_reader import FlatReader, choose_flat
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.gather import ColumnGatherer
from formatkit.formats.parquet.gathering import Gathering
from formatkit.formats.parquet.page_select import PageChoice, PageFiles
from formatkit.formats.parquet.projection import Projection
from formatkit.formats.parquet.pruning.page_index import ChunkIndex, PageIndexError
from formatkit.formats.parquet.read.page_check import CheckedReader, PageChecks
from formatkit.formats.parquet.row_ranges import RowNumbers, RowRanges
from formatkit.formats.parquet.text_columns import check_text

__all__ = ["OpenFile", "RowGroupColumns", "picked"]

_DECODED_BYTES = 4 * 1024 * 1024
_MIN_DECODED_ROWS = 1024
_MAX_DECODED_ROWS = 65_536
"""Bounds what is decoded at once; half of it cost a twentieth more, and twice of it was no faster."""

_WORTHWHILE = 0.7
"""Pages are picked if less than this share of a column's bytes must be decoded for them."""

_LARGE_SLICE = 0.2
"""A run of less than this share of a batch is copied, because a slice would keep the whole batch in memory."""


@dataclass(frozen=True, kw_only=True)
class OpenFile:
    """A file while it is read."""

    source: ByteSource
    file: BinaryIO
    footer: Footer
    projection: Projection
    page_files: PageFiles
    counters: MutableMapping[str, int]
    threads: int = 1


@dataclass(kw_only=True)
class _Group:
    """Columns of which the same rows are decoded: those of `ranges`, or all."""

    ranges: RowRanges | None
    columns: list[int] = field(default_factory=list)
    choices: dict[int, PageChoice] = field(default_factory=dict)


class RowGroupColumns:
    """The columns of one row group. Columns are numbered as in the projection."""

    def __init__(self, opened: OpenFile, row_group: RowGroup) -> None:
        self._opened = opened
        self._row_group = row_group
        self._indexes: dict[int, ChunkIndex | None] = {}
        self._checks = PageChecks(opened.footer)
        self._gathering = Gathering(
            opened.source,
            opened.projection,
            row_group,
            self.index,
            self._decoded_array,
            opened.counters,
            self._checks,
        )

    @property
    def footer(self) -> Footer:
        """The footer of the file."""
        return self._opened.footer

    def index(self, leaf: int) -> ChunkIndex | None:
        """The page index of a leaf."""
        if leaf not in self._indexes:
            self._indexes[leaf] = self._find_index(leaf)
        return self._indexes[leaf]

    def _find_index(self, leaf: int) -> ChunkIndex | None:
        opened, row_group = self._opened, self._row_group
        # The page index of an encrypted file is encrypted too.
        record = opened.footer.chunk_record(row_group, leaf) if opened.footer.decryption is None else None
        if record is None:
            return None
        return ChunkIndex(opened.source, row_group.metadata.column(leaf), record, row_group.rows, opened.counters)

    def decoded(
        self, columns: Sequence[int], rows: RowNumbers | None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The given columns at the given rows. What is to be fetched for them is announced before the first one.

        Args:
            columns: Which columns; the batches have them in ascending order.
            rows: Which rows, or None for all.
            batch_rows: How many rows each batch has, but for the last; None for what suits the decoder.
        """
        gathered = self._gathering.choose(columns, rows) if rows is not None else {}
        groups = self._groups([column for column in columns if column not in gathered], rows)
        self._announce(groups, gathered.values(), rows)
        return self._batches(columns, rows, batch_rows, groups, gathered)

    def _announce(self, groups: Iterable[_Group], gatherers: Iterable[ColumnGatherer], rows: RowNumbers | None) -> None:
        wanted: list[ByteRange] = []
        for group in groups:
            if group.ranges is None:
                wanted += in_order_of_need(list(self._row_group.chunk_ranges(self._leaves(group))))
            else:
                wanted += (part for choice in group.choices.values() for part in choice.ranges)
        if rows is not None:
            wanted += (part for gatherer in gatherers for part in gatherer.ranges(rows))
        self._opened.source.prefetch(wanted)

    def _batches(
        self,
        columns: Sequence[int],
        rows: RowNumbers | None,
        batch_rows: int | None,
        groups: Sequence[_Group],
        gathered: Mapping[int, ColumnGatherer],
    ) -> Iterator[pa.RecordBatch]:
        if batch_rows is None and len(groups) == 1 and not gathered:
            yield from self._stream(groups[0], rows)
            return
        size = batch_rows or _MAX_DECODED_ROWS
        streams = [rechunked(self._stream(group, rows), size, exactly=True) for group in groups]
        numbers = [column for group in groups for column in group.columns]
        if rows is not None and gathered:
            streams.append(self._gathering.batches(gathered, rows, size))
            numbers += gathered
        order = np.argsort(numbers)
        fields = [self._opened.projection.schema.field(column) for column in sorted(columns)]
        for batches in zip(*streams, strict=True):
            if len(batches) == 1:
                yield batches[0]
            else:
                arrays = [array for batch in batches for array in batch.columns]
                yield pa.RecordBatch.from_arrays([arrays[place] for place in order], schema=pa.schema(fields))

    def _decoded_array(self, column: int, rows: RowNumbers) -> pa.Array[Any]:
        """One column at some rows, by pyarrow."""
        (group,) = self._groups([column], rows)
        batches = [batch.column(0) for batch in self._stream(group, rows)]
        return batches[0] if len(batches) == 1 else pa.concat_arrays(batches)

    def _groups(self, columns: Sequence[int], rows: RowNumbers | None) -> list[_Group]:
        groups: dict[Any, _Group] = {}
        for column in columns:
            choices = None if rows is None else self._choices(column, rows)
            if choices is None:
                ranges, key = None, None
            else:
                choice = next(iter(choices.values()))
                ranges = RowRanges.of_pages(choice.pages.bounds, choice.chosen)
                key = (ranges.starts.tobytes(), ranges.ends.tobytes())
            group = groups.setdefault(key, _Group(ranges=ranges))
            group.columns.append(column)
            group.choices.update(choices or {})
        return list(groups.values())

    def _choices(self, column: int, rows: RowNumbers) -> dict[int, PageChoice] | None:
        """The pages of a column that hold some rows, by leaf; None if it is better to decode all of them."""
        found = {}
        for leaf in self._opened.projection.leaves_of[column]:
            index = self.index(leaf)
            if index is None or (pages := index.pages) is None:
                return None
            chosen = np.diff(np.searchsorted(rows, pages.bounds)) > 0
            found[leaf] = PageChoice(index=index, pages=pages, chosen=chosen)
        found = _aligned(found)
        return found if max(choice.share for choice in found.values()) < _WORTHWHILE else None

    def _stream(self, group: _Group, rows: RowNumbers | None) -> Iterator[pa.RecordBatch]:
        """The columns of a group at some rows. Raises `PageIndexError` if pages have other rows than their index."""
        opened, leaves = self._opened, self._leaves(group)
        dictionaries = [leaf for column in group.columns for leaf in self._dictionary_leaves(column)]
        if group.ranges is None:
            reader = self._whole_reader(group, leaves, dictionaries)
            yield from self._decoded_rows(group, reader, leaves, rows)
            return
        self._require_sound(leaves)
        file = opened.page_files.of(self._row_group, group.choices, group.ranges.count)
        found = self._decoded_rows(group, open_page_file(file, dictionaries), leaves, rows)
        try:
            # Of repeated leaves, only the last row shows that all of them are the right ones.
            yield from list(found) if self._repeated(leaves) else found
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, pa.ArrowCancelled | MemoryError):
                raise
            if isinstance(error, pa.ArrowException) and is_overflow(error):
                raise
            # The chunk as a whole is mended where that is needed, and else says what is wrong with it.
            raise PageIndexError(next(iter(group.choices.values())).index) from error

    def _decoded_rows(
        self,
        group: _Group,
        reader: CheckedReader | FlatReader | pq.ParquetReader,
        leaves: list[int],
        rows: RowNumbers | None,
    ) -> Iterator[pa.RecordBatch]:
        location, row_group = self._opened.source.location, self._row_group
        numbers, number, expected = None, row_group.index, row_group.rows
        if group.ranges is not None:
            numbers, number, expected = group.ranges.numbers(), 0, group.ranges.count
        projection = self._opened.projection
        if isinstance(reader, FlatReader):
            projection = projection.without_checks(leaves)
        names = [projection.schema.names[column] for column in group.columns]
        position = end = 0
        for batch in reader.iter_batches(self._decode_rows(leaves), [number], leaves, use_threads=False):
            end = position + batch.num_rows
            if end > expected:
                break
            chosen = _chosen(batch, position, end, numbers, rows)
            if chosen.num_rows:
                check_text(chosen.columns, names, location)
                yield from _conformed(projection, group.columns, chosen)
            position = end
            if rows is not None and numbers is None and position > rows[-1]:
                return
        if position != expected or end != expected:
            if numbers is not None:
                raise PageIndexError(next(iter(group.choices.values())).index)
            raise corrupt(location, f"row group {row_group.index} promises {expected} rows and holds {position}")

    def _require_sound(self, leaves: Sequence[int]) -> None:
        """Check all pages of repeated leaves: an index tells the rows of each page, but not how many values it has."""
        repeated, file = self._repeated(leaves), cast("Any", self._opened.file)
        if repeated and isinstance(file, pa.NativeFile):
            self._checks.require_sound(file, [self._row_group], repeated)

    def _repeated(self, leaves: Sequence[int]) -> list[int]:
        schema = self._opened.footer.metadata.schema
        return [leaf for leaf in leaves if schema.column(leaf).max_repetition_level]

    def _whole_reader(self, group: _Group, leaves: list[int], dictionaries: list[int]) -> CheckedReader | FlatReader:
        opened, row_group = self._opened, self._row_group
        open_ = partial(open_decoder, opened.file, opened.footer, [row_group.index], leaves, dictionaries)
        flat = choose_flat(opened.footer, opened.projection, [row_group], group.columns)
        if len(flat) < len(leaves):
            return open_()
        source, footer, threads = opened.source, opened.footer, opened.threads
        return FlatReader(source, opened.file, footer, flat, open_, opened.counters, threads=threads)

    def _leaves(self, group: _Group) -> list[int]:
        return [leaf for column in group.columns for leaf in self._opened.projection.leaves_of[column]]

    def _dictionary_leaves(self, column: int) -> Sequence[int]:
        """The leaf of a column of strings to be decoded in dictionary form, if any."""
        projection = self._opened.projection
        leaves, kind = projection.leaves_of[column], projection.schema.field(column).type
        if pa.types.is_dictionary(kind):
            return leaves
        if not pa.types.is_string(kind) and not pa.types.is_binary(kind):
            return ()
        index = self.index(leaves[0])
        return leaves if index is not None and index.all_dictionary else ()

    def _decode_rows(self, leaves: Sequence[int]) -> int:
        stored = sum(self._row_group.metadata.column(leaf).total_uncompressed_size for leaf in leaves)
        rows = _DECODED_BYTES * self._row_group.rows // max(stored, 1)
        return min(max(rows, _MIN_DECODED_ROWS), _MAX_DECODED_ROWS)


def _aligned(choices: dict[int, PageChoice]) -> dict[int, PageChoice]:
    """Choose more pages until every leaf of a nested column has the same rows."""
    while len(choices) > 1:
        ranges = RowRanges.whole(0)
        for choice in choices.values():
            ranges |= RowRanges.of_pages(choice.pages.bounds, choice.chosen)
        wider = {leaf: choice.widened(ranges) for leaf, choice in choices.items()}
        if all(int(choice.chosen.sum()) == int(choices[leaf].chosen.sum()) for leaf, choice in wider.items()):
            break
        choices = wider
    return choices


def _conformed(projection: Projection, columns: Sequence[int], decoded: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Decoded columns as they are asked for; in parts, if a dictionary makes too much text for one array."""
    try:
        return [projection.part(columns, decoded.columns)]
    except pa.ArrowInvalid as error:
        if decoded.num_rows == 1 or not is_overflow(error):
            raise
    half = decoded.num_rows // 2
    halves = (decoded.slice(0, half), decoded.slice(half))
    return [part for each in halves for part in _conformed(projection, columns, each)]


def _chosen(
    batch: pa.RecordBatch, start: int, end: int, numbers: RowNumbers | None, rows: RowNumbers | None
) -> pa.RecordBatch:
    """Those rows of a batch that are among `rows`; it holds `numbers[start:end]`, or simply all from start to end."""
    if rows is None:
        return batch
    held = None if numbers is None else numbers[start:end]
    first, last = (start, end - 1) if held is None else (int(held[0]), int(held[-1]))
    wanted = rows[np.searchsorted(rows, first) : np.searchsorted(rows, last, side="right")]
    if not len(wanted):
        return batch.slice(0, 0)
    return picked(batch, wanted - first if held is None else np.searchsorted(held, wanted))


def picked(batch: pa.RecordBatch, places: RowNumbers) -> pa.RecordBatch:
    """The rows of a batch at some places, of which there is at least one."""
    count, span = len(places), int(places[-1] - places[0]) + 1
    if count == span and count >= batch.num_rows * _LARGE_SLICE:
        return batch.slice(int(places[0]), count)
    return batch.take(places)
