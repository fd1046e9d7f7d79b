"""Positions of rows as callers give them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from formatkit.contract.batch import Longs
from formatkit.errors import InvalidDataError

__all__ = ["LARGEST_KEY", "row_positions"]

LARGEST_KEY: Final = 2**31 - 2
"""The largest upper half of a position that Java accepts."""

_LARGEST = (LARGEST_KEY << 32) + 2**31  # Java's limit, whose lower half is that of a signed number


def row_positions(positions: ArrayLike) -> Longs:
    """The positions in ascending order and each once; they may come in any order and repeat.

    Raises:
        InvalidDataError: A position is negative or beyond what a deletion vector can hold, or no whole number.
    """
    given = np.asarray(positions)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise InvalidDataError(f"positions of rows are whole numbers, not {given.dtype}")
    if given.size and not (given.min() >= 0 and given.max() <= _LARGEST):
        raise InvalidDataError(
            f"positions of rows are numbers from 0 to {_LARGEST}; these are from {given.min()} to {given.max()}"
        )
    flat = given.astype(np.int64, copy=False).ravel()
    return flat if (flat[1:] > flat[:-1]).all() else np.unique(flat)
