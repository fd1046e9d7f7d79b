"""What need not be worked out for each file anew, because the files of a table are much alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from formatkit.errors import FormatkitError

__all__ = ["remembered"]

T = TypeVar("T")
_TABLES_AT_ONCE = 64


def remembered(parse: Callable[[tuple[bytes, ...], str], T]) -> Callable[[tuple[bytes, ...], str], T]:
    """The function, which keeps its last results; they must not be changed.

    Args:
        parse: Makes something of parts of a file. Only its errors depend on the location, the second argument.
    """
    known = lru_cache(_TABLES_AT_ONCE)(lambda stored: parse(stored, ""))

    def parse_or_remember(stored: tuple[bytes, ...], location: str) -> T:
        try:
            return known(stored)
        except FormatkitError:
            return parse(stored, location)

    return parse_or_remember
