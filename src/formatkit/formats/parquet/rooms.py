"""Memory that is used again and again, because the operating system has to clear every page of new memory first."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Room"]

_MOST_SPARE = 24
_MOST_BYTES = 4 * 1024 * 1024
"""So many pieces of memory are kept, none of them larger."""

_lock = threading.Lock()
_spare: list[npt.NDArray[np.uint8]] = []


class Room:
    """Some memory, which is given to others when nobody refers to it any more. Its content is whatever was there.

    Args:
        size: How many bytes it has at least.
    """

    __slots__ = ("_memory", "address", "view")

    def __init__(self, size: int) -> None:
        self._memory = _taken(size)
        self.view = self._memory.data
        self.address: int = pa.py_buffer(self.view).address

    def __len__(self) -> int:
        return len(self.view)

    def __del__(self) -> None:
        memory = getattr(self, "_memory", None)
        if memory is not None and memory.size <= _MOST_BYTES and len(_spare) < _MOST_SPARE:
            _spare.append(memory)


def _taken(size: int) -> npt.NDArray[np.uint8]:
    with _lock:
        for number, memory in enumerate(_spare):
            if size <= memory.size <= 4 * size:
                return _spare.pop(number)
    return np.empty(size, np.uint8)
