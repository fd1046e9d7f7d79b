"""Reads one file ahead: announced ranges become fetches, as many at a time as the budget has room for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count

from formatkit.contract.storage import ByteRange
from formatkit.errors import StorageError
from formatkit.io.backends import RangeBackend
from formatkit.io.budget import Budget
from formatkit.io.fetch import Fetch, Run, fetches_for
from formatkit.io.ranges import Pieces, are_disjoint, coalesce, span, split
from formatkit.io.requests import Requests, new_room

__all__ = ["ReadAhead"]

_LEAST_FETCH = 256 << 10
_MOST_FETCHES = 2048


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
        self._pieces: Pieces[Run] = Pieces()
        self._queue: deque[Fetch] = deque()
        self._held: set[Fetch] = set()
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether there are announced bytes that nobody has taken yet."""
        return len(self._pieces) > 0

    def announce(self, ranges: Sequence[ByteRange]) -> None:
        """Fetch ranges when there is room for them, after those that were announced before."""
        with self._lock:
            if self._closed:
                return
            # So small that several fetches fit into the budget.
            most = max(self._budget.most_bytes // 4, _LEAST_FETCH)
            fresh = [part for one in self._not_announced(ranges) for part in split(one, most)]
            part_bytes = self._backend.rules.part_bytes_for(sum(length for _, length in fresh))
            groups = coalesce(fresh, self._backend.rules.gap_bytes, min(part_bytes, most))
            fetches, places = fetches_for(groups, min(self._requests.together_bytes, most), part_bytes)
            self._queue += fetches
            self._pieces.add_all(places)
        self.advance()
        self._budget.serve_waiting()

    def _not_announced(self, ranges: Sequence[ByteRange]) -> Sequence[ByteRange]:
        """What is not yet announced and untaken."""
        if are_disjoint(ranges):
            return [part for one in ranges for part in self._pieces.missing(one)] if self._pieces else ranges
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
        if fetch.untaken < fetch.announced:
            for run in fetch.runs:
                left = [piece for piece, owner in self._pieces.within(run.wanted) if owner is run]
                run.wanted = span(left) if left else ByteRange(run.wanted.offset, 0)
            fetch.runs = [run for run in fetch.runs if run.wanted.length]
            fetch.announced = fetch.untaken
        return self._reserve(fetch, urgent=False)

    def _reserve(self, fetch: Fetch, *, urgent: bool) -> bool:
        # A least price bounds the number of fetches, too.
        fetch.cost = max(fetch.length, self._budget.most_bytes // _MOST_FETCHES)
        if not self._budget.reserve(fetch.cost, self, urgent=urgent):
            return False
        self.held_bytes += fetch.cost
        self._held.add(fetch)
        return True

    def _begin(self, fetches: Sequence[Fetch], *, urgent: bool = False) -> None:
        rooms = [fetch.make_room() for fetch in fetches]
        try:
            begun = self._requests.begin_ahead(rooms, urgent=urgent)
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
            run = self._pieces.owner_of(wanted)
            if run is not None and run.fetch.landed and run.fetch.untaken > wanted.length:
                # The short way: there is nothing to wait for, and nothing to give back.
                self._pieces.remove(wanted)
                run.fetch.untaken -= wanted.length
                return run.view(wanted)
            claimed = self._claim(wanted)
        if not claimed:
            return None
        try:
            if claimed[0].covers(wanted):
                self._wait_for(claimed[0], wanted)
                return claimed[0].view(wanted)
            return self._gathered(wanted, claimed)
        finally:
            self._let_go(claimed)

    def _claim(self, wanted: ByteRange) -> list[Run]:
        """The runs under way or done that hold some of a range; what they hold of it counts as taken."""
        claimed: dict[Run, None] = {}
        for piece, run in self._pieces.within(wanted) if self._keep else self._pieces.cut(wanted):
            fetch = run.fetch
            fetch.untaken -= 0 if self._keep else piece.length
            if fetch.room is None and fetch.untaken and run.covers(wanted):
                # More of it will be asked for next, so all of it is worth its place, if there is one.
                if not self._reserve(fetch, urgent=True):
                    continue
                self._queue.remove(fetch)
                self._begin([fetch], urgent=True)
            if fetch.room is not None and run not in claimed:
                fetch.users += 1
                claimed[run] = None
        return list(claimed)

    def _wait_for(self, run: Run, wanted: ByteRange) -> None:
        self._requests.wait_for(run.calls_for(wanted))
        # If it is one call, whoever comes next need not ask.
        run.fetch.landed = not self._keep and len(run.fetch.calls) == 1

    def _gathered(self, wanted: ByteRange, runs: Sequence[Run]) -> memoryview:
        """A range from several runs, and from the storage what is in none of them."""
        room = new_room(wanted.length)
        covered: Pieces[Run] = Pieces()
        for run in runs:
            start = max(wanted.offset, run.wanted.offset)
            overlap = ByteRange(start, min(wanted.end, run.wanted.end) - start)
            for part in covered.missing(overlap):
                covered.add(part, run)
        self._requests.fetch([(hole, _part(room, wanted, hole)) for hole in covered.missing(wanted)])
        for part, run in covered.within(wanted):
            self._wait_for(run, part)
            _part(room, wanted, part)[:] = run.view(part)
        return room

    def _let_go(self, runs: Sequence[Run]) -> None:
        with self._lock:
            for run in runs:
                run.fetch.users -= 1
            fetches = dict.fromkeys(run.fetch for run in runs)
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
            fetch.room, fetch.calls, fetch.runs = None, (), []
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
