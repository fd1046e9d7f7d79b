"""The bytes that read-ahead may hold, shared by all files of a runtime."""

from __future__ import annotations

import threading
from typing import Protocol

__all__ = ["Borrower", "Budget"]


class Borrower(Protocol):
    """Whoever reads ahead for one file."""

    held_bytes: int

    def advance(self) -> None:
        """Try again to take from the budget."""
        ...


class Budget:
    """So many bytes and no more. Who holds least is served first when there is room again."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self.peak_bytes = 0
        self._lock = threading.Lock()
        self._waiting: dict[Borrower, int] = {}
        self._turns: set[Borrower] = set()

    def reserve(self, amount: int, borrower: Borrower, *, urgent: bool = False) -> bool:
        """Take bytes, or be told by `advance` when there is room; urgent wishes do not queue."""
        with self._lock:
            in_turn = urgent or borrower in self._turns or not self._waiting
            self._turns.discard(borrower)
            if in_turn and self.held_bytes + amount <= self.most_bytes:
                self.held_bytes += amount
                self.peak_bytes = max(self.peak_bytes, self.held_bytes)
                return True
            if not urgent:
                self._waiting[borrower] = amount
            return False

    def release(self, amount: int) -> None:
        """Give bytes back. `serve_waiting` should follow when no lock is held."""
        with self._lock:
            self.held_bytes -= amount

    def forget(self, borrower: Borrower) -> None:
        with self._lock:
            self._waiting.pop(borrower, None)

    def serve_waiting(self) -> None:
        """Let those who wait take what is free, one step each in turn."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                borrower = min(self._waiting, key=lambda one: one.held_bytes)
                if self.held_bytes + self._waiting[borrower] > self.most_bytes:
                    return
                del self._waiting[borrower]
                self._turns.add(borrower)
            borrower.advance()
            with self._lock:
                self._turns.discard(borrower)
