"""The buffers that programs fill, and what they hold when a batch is complete."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

__all__ = ["COUNTER", "MAX_COUNT", "Filled", "Slot"]

MAX_COUNT = 2**31 - 1
"""The most elements or bytes that Arrow's 32-bit offsets can count."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A kind of buffer.

    Attributes:
        width: The bytes of each entry; zero if entries are only counted.
        ends: Whether entries are where values end, so that a zero stands before the first one.
    """

    width: int
    ends: bool = False


COUNTER = Slot(width=0)


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A buffer with its entries, the zero before ends included.

    Attributes:
        buffer: The entries, and room that was not used.
        count: How many entries there are.
        nulls: How many of them say that there is no value, in a slot of those.
    """

    buffer: pa.Buffer
    count: int
    nulls: int
