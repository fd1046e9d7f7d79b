"""Something that several tasks need: made by the first of them, let go by the last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Shared"]

T = TypeVar("T")


class Shared(Generic[T]):
    """A value that is made when it is first taken, and forgotten when it was taken as often as it will be.

    Args:
        make: Makes the value. Others who need it wait meanwhile; if it fails, the next tries again.
        users: How many will take it.
    """

    def __init__(self, make: Callable[[], T], users: int = 0) -> None:
        self.users = users
        self._make = make
        self._made: list[T] = []
        self._lock = threading.Lock()

    def take(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            value = self._made[0]
            self.users -= 1
            if self.users <= 0:
                self._made.clear()
            return value
