"""Decodes columns of one stripe at a time into their canonical form, some rows after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa

from formatkit.batches.arrow.types import Column
from formatkit.batches.decoders import run_together
from formatkit.formats.orc.arrays import conform
from formatkit.formats.orc.decoder_room import DecoderRoom
from formatkit.formats.orc.flat_columns import PAYBACK, flat_column, has_unusual_root, is_flat
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.read.writer_zone import writer_zone
from formatkit.formats.orc.stored_columns import FlatColumn, Scratch, UnsuitableError
from formatkit.formats.orc.stripe_reads import StripeReads
from formatkit.formats.orc.stripe_streams import stream_contents
from formatkit.formats.orc.tail import Stripe, Tail
from formatkit.formats.orc.timestamps import is_zoned
from formatkit.formats.orc.whole_columns import WholeColumns

__all__ = ["ColumnDecoder", "StripeColumns"]


class ColumnDecoder:
    """Decodes columns of any stripe of a file.

    Args:
        tail: The tail of the file.
        reads: Its stripes.
        pool: Where the memory of arrays comes from.
        threads: On how many threads to decode.
    """

    def __init__(self, tail: Tail, reads: StripeReads, pool: pa.MemoryPool | None, threads: int) -> None:
        self._threads = threads
        self._tail = tail
        self._reads = reads
        self._pool = pool
        self._whole = WholeColumns(tail, reads)
        self._rooms = (DecoderRoom(), DecoderRoom())
        self._scratch = Scratch()

    def columns(self, stripe: Stripe, wanted: Sequence[Wanted], *, more: bool = False) -> StripeColumns:
        """The columns of a stripe. They are valid until others are asked for.

        Args:
            stripe: Which stripe.
            wanted: Which columns.
            more: They do not end the validity of those that were asked for without this.
        """
        flat = self._flat(stripe, wanted, self._rooms[more])
        others = [one for one in wanted if one.stored and one.column.type_id not in flat]
        whole = _WholeStripe(lambda: self._whole.of(stripe, others))
        number_of = {one.column.type_id: number for number, one in enumerate(others)}
        sources: list[_Source] = []
        for one in wanted:
            type_id = one.column.type_id
            if not one.stored:
                sources.append(_Nulls(one))
            elif type_id in flat:
                sources.append(_Flat(one, flat[type_id], partial(self._one, stripe, one)))
            else:
                sources.append(_Part(whole, number_of[type_id]))
        return StripeColumns(sources, self._threads)

    def _one(self, stripe: Stripe, wanted: Wanted) -> Column:
        return self._whole.of(stripe, [wanted])[0]

    def _flat(self, stripe: Stripe, wanted: Sequence[Wanted], room: DecoderRoom) -> dict[int, FlatColumn]:
        """What compiled code decodes, by the numbers of their types."""
        candidates = {one.column.type_id: one for one in wanted if one.stored and is_flat(one)}
        if not candidates or not PAYBACK.reached(stripe.data.length):
            return {}
        footer = self._reads.footer(stripe)
        if has_unusual_root(footer):
            return {}
        zone = writer_zone(self._tail, footer) if any(map(is_zoned, candidates.values())) else None
        contents = stream_contents(self._reads, self._tail, footer, candidates.keys(), room)
        found: dict[int, FlatColumn] = {}
        for type_id, one in candidates.items():
            try:
                found[type_id] = flat_column(one, contents, footer, self._tail, zone, self._scratch, self._pool)
            except UnsuitableError:
                continue
        return found


class _Source(Protocol):
    """A column, from its first row on."""

    def next(self, rows: int) -> Column: ...


class StripeColumns:
    """Columns of a stripe, decoded from the first row on."""

    def __init__(self, sources: Sequence[_Source], threads: int) -> None:
        self._sources = sources
        self._threads = threads

    def parts(self, rows: int) -> Iterator[tuple[int, list[Column]]]:
        """The next rows of each column and how many they are; in parts, if one array cannot hold them."""
        flat = [source for source in self._sources if isinstance(source, _Flat)]
        while rows:
            fitting = min((source.fitting(rows) for source in flat), default=rows)
            yield fitting, self._next(fitting)
            rows -= fitting

    def _next(self, rows: int) -> list[Column]:
        decoders = [partial(source.next, rows) for source in self._sources if isinstance(source, _Flat)]
        decoded = iter(run_together(decoders, self._threads))
        return [next(decoded) if isinstance(source, _Flat) else source.next(rows) for source in self._sources]


class _Nulls:
    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def next(self, rows: int) -> Column:
        return pa.nulls(rows, self._wanted.arrow)


class _WholeStripe:
    """Columns that are decoded as a whole, when the first of them is asked for."""

    def __init__(self, decode: Callable[[], list[Column]]) -> None:
        self._decode = decode
        self._columns: list[Column] | None = None

    def column(self, number: int) -> Column:
        if self._columns is None:
            self._columns = self._decode()
        return self._columns[number]


class _Part:
    def __init__(self, whole: _WholeStripe, number: int) -> None:
        self._whole = whole
        self._number = number
        self._done = 0

    def next(self, rows: int) -> Column:
        start, self._done = self._done, self._done + rows
        return self._whole.column(self._number).slice(start, rows)


class _Flat:
    """A column that compiled code decodes as far as it can.

    Args:
        wanted: What is asked for.
        column: Decodes it.
        otherwise: Decodes all of it, if that cannot: it is the one to tell what is wrong, if anything is.
    """

    def __init__(self, wanted: Wanted, column: FlatColumn, otherwise: Callable[[], Column]) -> None:
        self._wanted = wanted
        self._column: FlatColumn | None = column
        self._otherwise = otherwise
        self._whole: Column | None = None
        self._done = 0

    def fitting(self, rows: int) -> int:
        """How many of the next rows fit into one array."""
        try:
            return rows if self._column is None else self._column.fitting(rows)
        except (UnsuitableError, MemoryError):
            return rows

    def next(self, rows: int) -> Column:
        start, self._done = self._done, self._done + rows
        if self._column is not None:
            try:
                return conform(self._wanted, self._column.next(rows))
            except (UnsuitableError, MemoryError):
                self._column = None
        if self._whole is None:
            self._whole = self._otherwise()
        return self._whole.slice(start, rows)
