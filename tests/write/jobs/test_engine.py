"""The engine of this process, and how work is cut for engines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formatkit.write.jobs import Attempt, LocalEngine, Steps, even_parts


class Doubling:
    def __call__(self, work: int, attempt: Attempt) -> int:
        attempt.tell(work)
        if work < 0:
            raise ValueError("planted")
        return 2 * work


@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_piece_is_done_once(parallelism: int) -> None:
    told: list[tuple[int, int]] = []
    engine = LocalEngine(parallelism)
    found = dict(engine.run([5, 6, 7], Doubling(), lambda piece, done: told.append((piece, done))))
    assert found == {0: 10, 1: 12, 2: 14}
    assert sorted(told) == [(0, 5), (1, 6), (2, 7)]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_an_error_ends_the_run(parallelism: int) -> None:
    with (
        pytest.raises(ValueError, match="planted"),
        closing(LocalEngine(parallelism).run([1, -1, 2], Doubling())) as run,
    ):
        list(run)


def test_progress_never_goes_back_and_ends_with_everything() -> None:
    calls: list[tuple[int, int]] = []
    steps = Steps(_recorder(calls), 10)
    steps.tell(0, 3)
    steps.tell(1, 2)
    steps.finish(0, 5)  # deleted rows count, though nobody told of them
    steps.finish(1, 5)
    assert calls == [(3, 10), (5, 10), (7, 10), (10, 10)]


def _recorder(calls: list[tuple[int, int]]) -> Callable[[int, int], None]:
    return lambda done, whole: calls.append((done, whole))


@given(st.lists(st.integers(0, 1000)), st.integers(1, 9))
def test_parts_have_everything_once_in_its_order_and_are_even(weights: list[int], count: int) -> None:
    things = list(enumerate(weights))
    parts = even_parts(things, lambda thing: thing[1], count)
    assert sorted(thing for part in parts for thing in part) == things
    assert all(part == sorted(part) for part in parts)
    assert len(parts) == min(count, len(things))
    if len(parts) > 1:
        sizes = [sum(max(1, weight) for _, weight in part) for part in parts]
        assert max(sizes) - min(sizes) <= max(1, *weights)
