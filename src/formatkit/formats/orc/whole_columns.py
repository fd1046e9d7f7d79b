"""Decodes whole columns of a stripe with pyarrow: those that are not flat, and those that compiled code gave up."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyarrow.orc import ORCFile

from formatkit.batches.arrow.types import Column
from formatkit.forks import fork_safe
from formatkit.formats.orc.arrays import conform
from formatkit.formats.orc.column_file import Timestamps
from formatkit.formats.orc.decoder_room import DecoderRoom
from formatkit.formats.orc.failures import corrupt
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.read.unions import join_branches
from formatkit.formats.orc.read.writer_zone import WriterZone, writer_zone
from formatkit.formats.orc.stripe_reads import StripeReads
from formatkit.formats.orc.tail import Stripe, Tail
from formatkit.formats.orc.timestamps import holds_timestamps, is_zoned, join_timestamps, value_counts

__all__ = ["WholeColumns"]

_OUT_OF_RANGE = "out of range for nanosecond"
_VALUES_AT_ONCE = 1 << 18
"""So many values at least are decoded together: few enough for the caches, and many enough to be worth a file."""


class WholeColumns:
    """Decodes columns of any stripe of a file."""

    def __init__(self, tail: Tail, reads: StripeReads) -> None:
        self._tail = tail
        self._reads = reads
        self._in_parts = False
        self._room = DecoderRoom()
        # Columns that compiled code gave up are asked for on several threads, and share the memory.
        self._lock = fork_safe(threading.Lock())

    def of(self, stripe: Stripe, wanted: Sequence[Wanted]) -> list[Column]:
        """The columns in their canonical form; all of them are stored."""
        with self._lock:
            groups = _groups(wanted, stripe.rows)
            decoded = [column for group in groups for column in self._decoded(stripe, group, stripe.rows)]
        return [conform(one, column) for one, column in zip(wanted, decoded, strict=True)]

    def _decoded(self, stripe: Stripe, wanted: Sequence[Wanted], rows: int) -> list[Column]:
        columns = self._without_branches(stripe, wanted, rows)
        return [
            join_branches(one, column, partial(self._branch, stripe))
            for one, column in zip(wanted, columns, strict=True)
        ]

    def _branch(self, stripe: Stripe, wanted: Wanted, values: int) -> Column:
        return self._decoded(stripe, [wanted], values)[0]

    def _without_branches(self, stripe: Stripe, wanted: Sequence[Wanted], rows: int) -> list[Column]:
        """The columns, with tags for unions."""
        zone = writer_zone(self._tail, self._reads.footer(stripe)) if any(map(is_zoned, wanted)) else None
        if zone is None and not (self._in_parts and any(map(holds_timestamps, wanted))):
            try:
                return self._arrays(stripe, wanted, rows, Timestamps.WHOLE)
            except pa.ArrowInvalid as error:
                if _OUT_OF_RANGE not in str(error):
                    raise
            # One timestamp out of range announces others in the stripes to come.
            self._in_parts = True
        return self._decoded_in_parts(stripe, wanted, rows, zone)

    def _decoded_in_parts(
        self, stripe: Stripe, wanted: Sequence[Wanted], rows: int, zone: WriterZone | None
    ) -> list[Column]:
        seconds = self._arrays(stripe, wanted, rows, Timestamps.SECONDS)
        timed = {number: one for number, one in enumerate(wanted) if holds_timestamps(one)}
        counts: dict[int, int] = {}
        for number, one in timed.items():
            counts |= value_counts(one, seconds[number])
        nanos = self._arrays(stripe, list(timed.values()), rows, Timestamps.NANOS, counts)
        for (number, one), part in zip(timed.items(), nanos, strict=True):
            seconds[number] = join_timestamps(one, seconds[number], part, zone)
        return seconds

    def _arrays(
        self,
        stripe: Stripe,
        wanted: Sequence[Wanted],
        rows: int,
        timestamps: Timestamps,
        counts: Mapping[int, int] | None = None,
    ) -> list[Column]:
        columns = self._reads.columns(wanted, timestamps)
        file = columns.build(rows, self._reads.footer(stripe), counts or {}, self._reads, self._room)
        batch = ORCFile(file).read_stripe(0)
        if batch.num_rows != rows:
            found = f"promises {rows} rows and holds {batch.num_rows}"
            raise corrupt(self._tail.location, f"stripe {stripe.index} {found}")
        decoded: list[Column] = batch.columns
        return decoded


def _groups(wanted: Sequence[Wanted], rows: int) -> Iterator[list[Wanted]]:
    """Columns to decode together."""
    group: list[Wanted] = []
    for one in wanted:
        group.append(one)
        if len(group) * rows >= _VALUES_AT_ONCE:
            yield group
            group = []
    if group:
        yield group
