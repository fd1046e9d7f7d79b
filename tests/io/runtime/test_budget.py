"""The budget: who may take, and who is served first when there is room again."""

from __future__ import annotations

from formatkit.io.budget import Budget


class Reader:
    """Wants portions of one size, as many as it can get."""

    def __init__(self, budget: Budget, portion: int) -> None:
        self.budget = budget
        self.portion = portion
        self.held_bytes = 0

    def advance(self) -> None:
        while self.budget.reserve(self.portion, self):
            self.held_bytes += self.portion

    def give_back(self) -> None:
        self.held_bytes -= self.portion
        self.budget.release(self.portion)
        self.budget.serve_waiting()


def test_no_more_is_taken_than_there_is() -> None:
    budget = Budget(100)
    reader = Reader(budget, 30)
    reader.advance()
    assert (reader.held_bytes, budget.held_bytes, budget.peak_bytes) == (90, 90, 90)


def test_who_holds_least_is_served_first() -> None:
    budget = Budget(100)
    first, second = Reader(budget, 25), Reader(budget, 25)
    first.advance()
    second.advance()
    assert (first.held_bytes, second.held_bytes) == (100, 0)
    for _ in range(4):
        first.give_back()
    assert (first.held_bytes, second.held_bytes) == (50, 50)


def test_small_wishes_do_not_overtake_a_large_one_that_waits() -> None:
    budget = Budget(100)
    holder, large, small = Reader(budget, 90), Reader(budget, 60), Reader(budget, 5)
    for reader in (holder, large, small):
        reader.advance()
    assert (large.held_bytes, small.held_bytes) == (0, 0)
    holder.portion, holder.held_bytes = 90, 90
    budget.forget(holder)
    holder.give_back()
    assert (large.held_bytes, small.held_bytes) == (60, 40)


def test_urgent_wishes_do_not_queue_but_respect_the_limit() -> None:
    budget = Budget(100)
    holder, waiting = Reader(budget, 90), Reader(budget, 60)
    holder.advance()
    waiting.advance()
    assert budget.reserve(10, holder, urgent=True)
    assert not budget.reserve(1, holder, urgent=True)


def test_who_is_forgotten_is_not_served() -> None:
    budget = Budget(100)
    holder, gone = Reader(budget, 100), Reader(budget, 50)
    holder.advance()
    gone.advance()
    budget.forget(gone)
    budget.forget(holder)
    holder.give_back()
    assert (gone.held_bytes, budget.held_bytes) == (0, 0)
