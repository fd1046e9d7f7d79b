"""What read-ahead fetches at a time: one range in parts, or many small ranges together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from formatkit.contract.storage import ByteRange
from formatkit.errors import InternalError, StorageError
from formatkit.io.ranges import span
from formatkit.io.requests import PackedRoom, new_room

__all__ = ["Fetch", "Run", "fetches_for"]

# As many reads as fit into a ring, so that none of a fetch waits for its others.
_MOST_RUNS = 256


class Run:
    """A range of a file that lies in one piece in the room of a fetch.

    Attributes:
        fetch: The fetch that it is a part of.
        wanted: The range.
        start: Where it begins in the room.
    """

    __slots__ = ("fetch", "start", "wanted")

    def __init__(self, fetch: Fetch, wanted: ByteRange) -> None:
        self.fetch = fetch
        self.wanted = wanted
        self.start = 0

    def covers(self, wanted: ByteRange) -> bool:
        return self.wanted.offset <= wanted.offset and wanted.end <= self.wanted.end

    def view(self, wanted: ByteRange) -> memoryview:
        start = self.start + wanted[0] - self.wanted[0]
        return self.fetch.whole()[start : start + wanted[1]]

    def calls_for(self, wanted: ByteRange) -> Sequence[Future[None]]:
        """The calls that fill a part of the range."""
        start = self.start + wanted.offset - self.wanted.offset
        part_bytes = self.fetch.part_bytes
        return self.fetch.calls[start // part_bytes : (start + wanted.length - 1) // part_bytes + 1]


class Fetch:
    """Ranges that are fetched into one room, or will be: one in parts, or several by one call.

    Attributes:
        runs: The ranges, one behind the other in the room.
        part_bytes: The size of the parts of the room that calls fill.
        cost: What it takes of the budget.
        announced: How many announced bytes it has.
        untaken: How many of them nobody has taken yet.
        users: How many threads are waiting for it or copying from it.
        room: The buffer; None before the fetch has begun.
        calls: One for each part.
        landed: Whether all of it is known to be there.
    """

    __slots__ = ("announced", "calls", "cost", "landed", "part_bytes", "room", "runs", "untaken", "users")

    def __init__(self, part_bytes: int) -> None:
        self.runs: list[Run] = []
        self.part_bytes = part_bytes
        self.cost = 0
        self.announced = 0
        self.untaken = 0
        self.users = 0
        self.room: memoryview | None = None
        self.calls: Sequence[Future[None]] = ()
        self.landed = False

    @property
    def length(self) -> int:
        return sum(run.wanted[1] for run in self.runs)

    def make_room(self) -> PackedRoom:
        """Lay the ranges out in new memory."""
        length = 0
        for run in self.runs:
            run.start = length
            length += run.wanted[1]
        if len(self.runs) > 1:
            self.part_bytes = length
        self.room = new_room(length)
        return PackedRoom([run.wanted for run in self.runs], self.room, self.part_bytes)

    def whole(self) -> memoryview:
        if self.room is None:
            raise InternalError(f"a fetch of {self.runs[0].wanted} was used before it began")
        return self.room

    def fail(self, error: StorageError) -> None:
        failed: Future[None] = Future()
        failed.set_exception(error)
        self.calls = [failed] * -(-self.length // self.part_bytes)


def fetches_for(
    groups: Sequence[Sequence[ByteRange]], together_bytes: int, part_bytes: int
) -> tuple[list[Fetch], list[tuple[ByteRange, Run]]]:
    """Fetches of groups of ranges, and where each range will be found.

    Args:
        groups: Ranges that are fetched in one piece, in the order of need.
        together_bytes: How many bytes of several groups one call may fetch.
        part_bytes: The size of the parts of a group that is fetched by itself.
    """
    fetches: list[Fetch] = []
    places: list[tuple[ByteRange, Run]] = []
    total = 0
    for group in groups:
        whole = span(group)
        total += whole.length
        if not fetches or total > together_bytes or len(fetches[-1].runs) == _MOST_RUNS:
            fetches.append(Fetch(part_bytes))
            total = whole.length
        run = Run(fetches[-1], whole)
        fetches[-1].runs.append(run)
        for one in group:
            fetches[-1].untaken += one.length
            places.append((one, run))
    for fetch in fetches:
        fetch.announced = fetch.untaken
    return fetches, places
