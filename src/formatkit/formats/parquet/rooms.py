"""Memory that is used again and again, because the operating system has to clear every page of new memory first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Room"]

_LEAST_BYTES = 4 * 1024
_MOST_BYTES = 4 * 1024 * 1024
_MOST_SPARE_BYTES = 16 * 1024 * 1024
"""About so many bytes are kept, in pieces that are not larger than that."""

# By size, a power of two. Lists are popped and appended at once, without a lock that a forked process could inherit.
_spare: dict[int, list[npt.NDArray[np.uint8]]] = {
    1 << power: [] for power in range(_LEAST_BYTES.bit_length() - 1, _MOST_BYTES.bit_length())
}


class Room:
    """Some memory, which is given to others when nobody refers to it any more. Its content is whatever was there.

    Args:
        size: How many bytes it has at least.
    """

    __slots__ = ("_memory", "address")

    def __init__(self, size: int) -> None:
        self._memory = _taken(size)
        self.address: int = pa.py_buffer(self._memory.data).address

    def __len__(self) -> int:
        return len(self._memory)

    def __del__(self) -> None:
        # There is none if it could not be had.
        memory: npt.NDArray[np.uint8] | None = getattr(self, "_memory", None)
        if memory is None or sum(size * len(kept) for size, kept in _spare.items()) >= _MOST_SPARE_BYTES:
            return
        if len(memory) in _spare:
            _spare[len(memory)].append(memory)


def _taken(size: int) -> npt.NDArray[np.uint8]:
    if size > _MOST_BYTES:
        return np.empty(size, np.uint8)
    size = 1 << max(size - 1, _LEAST_BYTES - 1).bit_length()
    try:
        return _spare[size].pop()
    except IndexError:
        return np.empty(size, np.uint8)
