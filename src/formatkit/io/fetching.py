"""Reads one file ahead: announced ranges become fetches, as many at a time as the budget has room for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count

from formatkit.contract.storage import ByteRange
from formatkit.errors import InternalError, StorageError
from formatkit.io.backends import RangeBackend
from formatkit.io.budget import Budget
from formatkit.io.ranges import Pieces, coalesce, span, split
from formatkit.io.requests import Requests, new_room

__all__ = ["ReadAhead"]

_LEAST_FETCH = 256 << 10
_MOST_FETCHES = 2048


class Fetch:
    """A range that is fetched into one buffer, or will be.

    Attributes:
        wanted: The range.
        part_bytes: The size of the parts in which it is fetched.
        cost: What it takes of the budget.
        untaken: How many announced bytes of it nobody has taken yet.
        users: How many threads are waiting for it or copying from it.
        room: The buffer; None before the fetch has begun.
        calls: One for each part.
    """

    __slots__ = ("calls", "cost", "part_bytes", "room", "untaken", "users", "wanted")

    def __init__(self, wanted: ByteRange, part_bytes: int) -> None:
        self.wanted = wanted
        self.part_bytes = part_bytes
        self.cost = 0
        self.untaken = 0
        self.users = 0
        self.room: memoryview | None = None
        self.calls: Sequence[Future[None]] = ()

    def covers(self, wanted: ByteRange) -> bool:
        return self.wanted.offset <= wanted.offset and wanted.end <= self.wanted.end

    def calls_for(self, wanted: ByteRange) -> Sequence[Future[None]]:
        """The calls that fill a part of the range."""
        first = (wanted.offset - self.wanted.offset) // self.part_bytes
        return self.calls[first : (wanted.end - 1 - self.wanted.offset) // self.part_bytes + 1]

    def whole(self) -> memoryview:
        if self.room is None:
            raise InternalError(f"a fetch of {self.wanted} was used before it began")
        return self.room

    def view(self, wanted: ByteRange) -> memoryview:
        start = wanted.offset - self.wanted.offset
        return self.whole()[start : start + wanted.length]

    def fail(self, error: StorageError) -> None:
        failed: Future[None] = Future()
        failed.set_exception(error)
        self.calls = [failed] * len(split(self.wanted, self.part_bytes))


class ReadAhead:
    """The announced ranges of one file, in the order of need.

    A fetch is held until every announced byte of it was taken once. All of its state is guarded by one lock, which is
    never held while somebody waits or while another file is told that there is room.

    Args:
        backend: The file.
        requests: Fetches its ranges.
        budget: What all files share.
        keep: Whether to hold what was taken, too, until the end.
    """

    def __init__(self, backend: RangeBackend, requests: Requests, budget: Budget, *, keep: bool = False) -> None:
        self.held_bytes = 0
        self._keep = keep
        self._backend = backend
        self._requests = requests
        self._budget = budget
        self._lock = threading.Lock()
        self._pieces: Pieces[Fetch] = Pieces()
        self._queue: deque[Fetch] = deque()
        self._held: set[Fetch] = set()
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether there are announced bytes that nobody has taken yet."""
        return len(self._pieces) > 0

    def announce(self, ranges: Iterable[ByteRange]) -> None:
        """Fetch ranges when there is room for them, after those that were announced before."""
        with self._lock:
            if self._closed:
                return
            # So small that several fetches fit into the budget.
            most = max(self._budget.most_bytes // 4, _LEAST_FETCH)
            fresh = [part for one in self._not_announced(ranges) for part in split(one, most)]
            part_bytes = self._backend.rules.part_bytes_for(sum(one.length for one in fresh))
            for group in coalesce(fresh, self._backend.rules.gap_bytes, min(part_bytes, most)):
                fetch = Fetch(span(group), part_bytes)
                fetch.untaken = sum(one.length for one in group)
                self._queue.append(fetch)
                for piece in group:
                    self._pieces.add(piece, fetch)
        self.advance()
        self._budget.serve_waiting()

    def _not_announced(self, ranges: Iterable[ByteRange]) -> list[ByteRange]:
        """What is not yet announced and untaken."""
        seen: Pieces[None] = Pieces()
        fresh: list[ByteRange] = []
        for one in ranges:
            for missing in self._pieces.missing(one):
                for part in seen.missing(missing):
                    seen.add(part, None)
                    fresh.append(part)
        return fresh

    def advance(self) -> None:
        """Begin as many fetches as the budget allows."""
        with self._lock:
            begun: list[Fetch] = []
            while self._queue:
                fetch = self._queue[0]
                if fetch.untaken and not self._reserve_rest(fetch):
                    break
                self._queue.popleft()
                if fetch.untaken:
                    begun.append(fetch)
            self._begin(begun)

    def _reserve_rest(self, fetch: Fetch) -> bool:
        """Whether there is room for what is left of a fetch that has not begun."""
        fetch.wanted = span([piece for piece, owner in self._pieces.within(fetch.wanted) if owner is fetch])
        return self._reserve(fetch, urgent=False)

    def _reserve(self, fetch: Fetch, *, urgent: bool) -> bool:
        # A least price bounds the number of fetches, too.
        fetch.cost = max(fetch.wanted.length, self._budget.most_bytes // _MOST_FETCHES)
        if not self._budget.reserve(fetch.cost, self, urgent=urgent):
            return False
        self.held_bytes += fetch.cost
        self._held.add(fetch)
        return True

    def _begin(self, fetches: Sequence[Fetch], *, urgent: bool = False) -> None:
        for fetch in fetches:
            fetch.room = new_room(fetch.wanted.length)
        try:
            if urgent:
                for fetch in fetches:
                    fetch.calls = self._requests.begin(fetch.wanted, fetch.whole(), fetch.part_bytes, urgent=True)
            else:
                rooms = [(fetch.wanted, fetch.whole()) for fetch in fetches]
                begun = self._requests.begin_ahead(rooms, [fetch.part_bytes for fetch in fetches])
                for fetch, calls in zip(fetches, begun, strict=True):
                    fetch.calls = calls
        except StorageError as error:
            # The runtime was closed. Whoever asks for these bytes is told so.
            for fetch in fetches:
                fetch.fail(error)

    def take(self, wanted: ByteRange) -> memoryview | None:
        """A range of which something was announced, when it is there; None if all of it has to be fetched now."""
        if not self._pieces:
            return None
        with self._lock:
            fetches = self._claim(wanted)
        if not fetches:
            return None
        try:
            if fetches[0].covers(wanted):
                self._requests.wait_for(fetches[0].calls_for(wanted))
                return fetches[0].view(wanted)
            return self._gathered(wanted, fetches)
        finally:
            self._let_go(fetches)

    def _claim(self, wanted: ByteRange) -> list[Fetch]:
        """The fetches under way or done that hold some of a range; what they hold of it counts as taken."""
        claimed: dict[Fetch, None] = {}
        for piece, fetch in self._pieces.within(wanted) if self._keep else self._pieces.cut(wanted):
            fetch.untaken -= 0 if self._keep else piece.length
            if fetch.room is None and fetch.untaken and fetch.covers(wanted):
                # More of it will be asked for next, so all of it is worth its place, if there is one.
                if not self._reserve(fetch, urgent=True):
                    continue
                self._queue.remove(fetch)
                self._begin([fetch], urgent=True)
            if fetch.room is not None and fetch not in claimed:
                fetch.users += 1
                claimed[fetch] = None
        return list(claimed)

    def _gathered(self, wanted: ByteRange, fetches: Sequence[Fetch]) -> memoryview:
        """A range from several fetches, and from the storage what is in none of them."""
        room = new_room(wanted.length)
        covered: Pieces[Fetch] = Pieces()
        for fetch in fetches:
            start = max(wanted.offset, fetch.wanted.offset)
            overlap = ByteRange(start, min(wanted.end, fetch.wanted.end) - start)
            for part in covered.missing(overlap):
                covered.add(part, fetch)
        self._requests.fetch([(hole, _part(room, wanted, hole)) for hole in covered.missing(wanted)])
        for part, fetch in covered.within(wanted):
            self._requests.wait_for(fetch.calls_for(part))
            _part(room, wanted, part)[:] = fetch.view(part)
        return room

    def _let_go(self, fetches: Sequence[Fetch]) -> None:
        with self._lock:
            for fetch in fetches:
                fetch.users -= 1
            done = [fetch for fetch in fetches if not fetch.users and not fetch.untaken]
            self._forget(done)
        self._drop(done)

    def _forget(self, fetches: Sequence[Fetch]) -> None:
        self._held.difference_update(fetches)
        self.held_bytes -= sum(fetch.cost for fetch in fetches)

    def _drop(self, fetches: Sequence[Fetch]) -> None:
        """Give places back that nobody uses any more, at the latest when the calls that are under way have ended."""
        for fetch in fetches:
            running = [call for call in fetch.calls if not call.cancel() and not call.done()]
            fetch.room, fetch.calls = None, ()
            if running:
                _when_all_done(running, partial(self._give_back, fetch.cost))
            else:
                self._budget.release(fetch.cost)
        if fetches:
            self._budget.serve_waiting()

    def _give_back(self, cost: int) -> None:
        self._budget.release(cost)
        self._budget.serve_waiting()

    def close(self) -> None:
        """Cancel what has not begun, and hold nothing any more."""
        with self._lock:
            self._closed = True
            self._pieces.clear()
            self._queue.clear()
            self._budget.forget(self)
            unused = [fetch for fetch in self._held if not fetch.users]
            self._forget(unused)
            waited_for = [call for fetch in self._held for call in fetch.calls]
            for fetch in self._held:
                fetch.untaken = 0
        for call in waited_for:
            call.cancel()
        self._drop(unused)


def _part(room: memoryview, whole: ByteRange, part: ByteRange) -> memoryview:
    return room[part.offset - whole.offset : part.end - whole.offset]


def _when_all_done(calls: Sequence[Future[None]], then: Callable[[], None]) -> None:
    """Do something once the last of the calls has ended."""
    left = count(len(calls) - 1, -1)

    def one_done(_: Future[None]) -> None:
        if next(left) == 0:
            then()

    for call in calls:
        call.add_done_callback(one_done)
