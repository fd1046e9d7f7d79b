"""The bytes that a read needs of its stripes: announced before they are needed, and each fetched once.

Where the streams of a stripe are is told by its footer. So footers are announced first, all of them, and the streams of
a stripe while those before it are decoded. If all columns are wanted, or the stripe is small, its streams are announced
as one, which needs no footer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import FormatkitError
from formatkit.formats.orc.column_file import ColumnFiles, Timestamps
from formatkit.formats.orc.failures import reading
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.stripes import StripeFooter, read_stripe_footer
from formatkit.formats.orc.tail import Stripe, Tail

__all__ = ["StripeReads"]

_STRIPES_AHEAD = 2
_SMALL_STRIPE_BYTES = 64 << 10


class _Need(NamedTuple):
    """What is needed of a stripe in any case, and whether its streams are read as one."""

    stripe: Stripe
    columns: ColumnFiles
    as_one: bool


class StripeReads:
    """The stripes of one read, in the order in which they are decoded.

    Args:
        source: The file.
        tail: Its tail.
        needed: The stripes, and the columns that are needed of each in any case.

    Attributes:
        location: The file's.
    """

    def __init__(self, source: ByteSource, tail: Tail, needed: Iterable[tuple[Stripe, Sequence[Wanted]]]) -> None:
        self._source = source
        self._tail = tail
        self.location = tail.location
        self._is_local = source.local_path() is not None
        self._columns: dict[tuple[Timestamps, tuple[int, ...]], ColumnFiles] = {}
        self._needs = [self._need(*one) for one in needed]
        self._begun = self._announced = 0
        self._file: Any = None
        self._room = memoryview(b"")
        self._footers: dict[int, StripeFooter] = {}
        self._ranges: list[ByteRange] = []
        self._fetched: dict[ByteRange, memoryview] = {}
        source.prefetch([part for need in self._needs for part in _known_ranges(need)])
        self._announce_through(1)

    def begin(self) -> None:
        """Go on to the next stripe, and let go of what was fetched of the one before."""
        need = self._needs[self._begun]
        self._begun += 1
        self._announce_through(self._begun + _STRIPES_AHEAD)
        self._footers = {index: footer for index, footer in self._footers.items() if index >= need.stripe.index}
        self._fetched = {}
        self._ranges = self._stream_ranges(need)

    def also(self, wanted: Sequence[Wanted]) -> None:
        """Announce other columns of the stripe that has begun."""
        need = self._needs[self._begun - 1]
        if not need.as_one:
            ranges = self._stream_ranges(need._replace(columns=self.columns(wanted, Timestamps.WHOLE)))
            self._source.prefetch(ranges)
            self._ranges = sorted([*self._ranges, *ranges])

    def columns(self, wanted: Sequence[Wanted], timestamps: Timestamps) -> ColumnFiles:
        """What builds files of these columns."""
        key = (timestamps, tuple(one.column.type_id for one in wanted))
        if key not in self._columns:
            self._columns[key] = ColumnFiles(self._tail, wanted, timestamps)
        return self._columns[key]

    def footer(self, stripe: Stripe) -> StripeFooter:
        if stripe.index not in self._footers:
            self._footers[stripe.index] = read_stripe_footer(self._source, self._tail, stripe)
        return self._footers[stripe.index]

    def read(self, part: ByteRange) -> memoryview:
        """Bytes of the stripe that has begun, which stay what they are until the next ones are asked for."""
        if not part.length:
            return memoryview(b"")
        if self._is_local:
            if len(self._room) < part.length:
                self._room = memoryview(bytearray(part.length))
            room = self._room[: part.length]
            self._fill_from_file(part.offset, room)
            return room
        announced = self._announced_range(part)
        if announced not in self._fetched:
            self._fetched[announced] = self._source.read(*announced)
        start = part.offset - announced.offset
        return self._fetched[announced][start : start + part.length]

    def fill(self, part: ByteRange, room: memoryview) -> None:
        """Put bytes of the stripe that has begun where they are wanted."""
        if self._is_local:
            self._fill_from_file(part.offset, room)
        else:
            room[:] = self.read(part)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _announced_range(self, part: ByteRange) -> ByteRange:
        place = bisect_right(self._ranges, part.offset, key=_offset) - 1
        if place >= 0 and part.end <= self._ranges[place].end:
            return self._ranges[place]
        # Where the stripe says that its index is, for instance.
        return part

    def _fill_from_file(self, offset: int, room: memoryview) -> None:
        """Local files are read as the decoder goes."""
        if self._file is None:
            self._file = self._source.open()
        self._file.seek(offset)
        if (found := self._file.readinto(room)) != len(room):
            raise EOFError(f"{len(room)} bytes were expected at {offset}, {found} are there")

    def _need(self, stripe: Stripe, wanted: Sequence[Wanted]) -> _Need:
        columns = self.columns(wanted, Timestamps.WHOLE)
        # Local files gain nothing by reading more than is needed.
        is_small = stripe.data.length <= _SMALL_STRIPE_BYTES and not self._is_local
        return _Need(stripe, columns, columns.has_all_types or (is_small and columns.has_any_column))

    def _stream_ranges(self, need: _Need) -> list[ByteRange]:
        if need.as_one:
            return [need.stripe.data]
        return need.columns.ranges(self.footer(need.stripe)) if need.columns.has_any_column else []

    def _announce_through(self, count: int) -> None:
        for need in self._needs[self._announced : count]:
            self._announced += 1
            if not need.as_one:
                # What is wrong with a footer is told when its turn comes: the rows before it are sound.
                with suppress(FormatkitError), reading(self.location):
                    self._source.prefetch(self._stream_ranges(need))


def _known_ranges(need: _Need) -> list[ByteRange]:
    """What is known to be needed without the footer."""
    if need.as_one:
        return [need.stripe.footer, need.stripe.data]
    return [need.stripe.footer] if need.columns.has_any_column else []


def _offset(part: ByteRange) -> int:
    return part.offset
