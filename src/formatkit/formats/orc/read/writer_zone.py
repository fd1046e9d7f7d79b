"""The time zone of the writer of a stripe, in which it took timestamps without zone to be.

Such a timestamp is stored as an instant: seconds since the beginning of 2015 in the zone of the writer. What is meant
is the wall-clock time there. Readers and writers do not know local mean time: before 1900, `java.util.TimeZone` has
today's standard offset; before the first change of an offset, ORC's C++ library has the offset from then on.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from formatkit.errors import UnsupportedError
from formatkit.formats.orc.stripes import UTC as UTC_NAME
from formatkit.formats.orc.stripes import StripeFooter
from formatkit.formats.orc.tail import Tail

__all__ = ["ORC_EPOCH", "WriterZone", "writer_zone", "zone_named"]

ORC_EPOCH = 1_420_070_400
"""Timestamps are stored as seconds since 2015-01-01."""

_CPP = 1
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_DAY = 24 * 3600
_1800, _1900, _2100 = (day * _DAY for day in (-62_091, -25_567, 47_482))
"""The first seconds of these years. No zone had rules before 1800, and none changes its rules after 2100."""

_400_YEARS = 146_097 * _DAY
"""After so many seconds the Gregorian calendar repeats itself, days of the week included, and so do rules of zones."""

_BLOCK, _STEP = 1 << 25, 1 << 18
"""Changes of an offset are looked for in blocks of a year, in steps of three days: no two are less than that apart."""

_OFFSET = re.compile(r"GMT([+-])(\d{1,2})(?::(\d\d))?(?::(\d\d))?")
_SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "GMT-5",
    "HST": "GMT-10",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "GMT-7",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Names that Java knows and the time zone database does not."""


class WriterZone:
    """Turns instants into wall-clock times of one zone.

    Args:
        zone: The zone.
        by_java: Whether the writer was Java's.

    Attributes:
        epoch: The instant from which seconds are counted, in seconds since 1970.
    """

    def __init__(self, zone: tzinfo, *, by_java: bool) -> None:
        self._zone = zone
        self._blocks: dict[int, Sequence[tuple[int, int]]] = {}
        self._first, self._earlier = (_1900, self._standard_offset()) if by_java else self._first_change()
        self.epoch = ORC_EPOCH - self._offset_at(ORC_EPOCH)

    def wall_times(self, instants: NDArray[np.int64], per_second: int) -> NDArray[np.int64]:
        """The wall-clock times of instants, so many to a second; raises `OverflowError` if one leaves 64 bits."""
        if not len(instants):
            return instants
        offsets = self._offsets(instants // per_second) * per_second
        wall_times = instants + offsets
        if ((wall_times < instants) != (offsets < 0)).any():
            raise OverflowError("a wall-clock time does not fit into 64 bits")
        return wall_times

    def _offsets(self, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
        like = np.where(seconds < _2100, np.maximum(seconds, _1800), _2100 + (seconds - _2100) % _400_YEARS)
        blocks = like // _BLOCK
        first = blocks.min()
        used = (np.flatnonzero(np.bincount(blocks - first)) + first).tolist()
        changes, offsets = np.array([change for block in used for change in self._changes(block)], np.int64).T
        found = offsets.take(np.searchsorted(changes, like, side="right") - 1)
        return np.where(seconds < self._first, self._earlier, found)

    def _standard_offset(self) -> int:
        months = (datetime(2030, month, 1, tzinfo=UTC) - _1970 for month in range(1, 13))
        return min(self._offset_at(month // _SECOND) for month in months)

    def _first_change(self) -> tuple[int, int]:
        """The second at which local mean time ends, and the first standard offset from then on."""

        def is_later(second: int) -> bool:
            return (self._at(second).tzname(), self._offset_at(second)) != earliest

        earliest = (self._at(_1800).tzname(), self._offset_at(_1800))
        later = [second for second in range(_1800, _2100, _BLOCK) if is_later(second)]
        if not later:
            return _1800, earliest[1]
        block = range(later[0] - _BLOCK, later[0])
        place = bisect_left(block, True, key=is_later)
        standard = next((second for second in later if not self._at(second).dst()), later[0])
        return block.start + place, self._offset_at(standard)

    def _changes(self, block: int) -> Sequence[tuple[int, int]]:
        """The second at which a block begins and those at which the offset changes, with the offset from then on."""
        if block not in self._blocks:
            start = block * _BLOCK
            found = [(start, self._offset_at(start))]
            for end in range(start + _STEP, start + _BLOCK + 1, _STEP):
                if (offset := self._offset_at(end)) != found[-1][1]:
                    found.append((self._change_before(end, offset), offset))
            self._blocks[block] = found
        return self._blocks[block]

    def _change_before(self, end: int, offset: int) -> int:
        """The second from which on there is this offset, no more than a step before the end."""
        step = range(end - _STEP, end)
        return step.start + bisect_left(step, True, key=lambda second: self._offset_at(second) == offset)

    def _offset_at(self, second: int) -> int:
        return (self._at(second).utcoffset() or timedelta()) // _SECOND

    def _at(self, second: int) -> datetime:
        return (_1970 + timedelta(seconds=second)).astimezone(self._zone)


def writer_zone(tail: Tail, footer: StripeFooter) -> WriterZone | None:
    """The zone that a stripe names; None if it is UTC."""
    if footer.timezone == UTC_NAME:
        return None
    try:
        return zone_named(footer.timezone, by_java=tail.writer != _CPP)
    except LookupError as error:
        message = (
            f"{tail.location}: its timestamps without zone were written in the time zone {footer.timezone!r}, which is "
            "not known here. Install the time zone database of the system or the package tzdata, or leave these "
            "columns out"
        )
        raise UnsupportedError(message, location=tail.location) from error


@lru_cache(64)
def zone_named(name: str, *, by_java: bool) -> WriterZone:
    """The zone of this name; raises `LookupError` if there is none, or no time zone database."""
    return WriterZone(_zone(_SHORT_IDS.get(name, name)), by_java=by_java)


def _zone(name: str) -> tzinfo:
    if (found := _OFFSET.fullmatch(name)) is not None:
        hours, minutes, seconds = (int(number or 0) for number in found.group(2, 3, 4))
        if hours < _DAY // 3600:
            offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
            return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:
        raise LookupError(f"{name!r} is no time zone") from error
