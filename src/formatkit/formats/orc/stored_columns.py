"""What all decoders of flat columns share: the column as it is stored, and how its rows become an array."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.batches.arrow.types import Column
from formatkit.batches.compiled.loading import kernels
from formatkit.formats.orc.kernels.numbers import AT, CURSOR_NUMBERS, DAMAGED, END
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.stripe_streams import Content
from formatkit.formats.orc.stripes import StreamKind

__all__ = [
    "DICTIONARY",
    "DICTIONARY_2",
    "DIRECT",
    "DIRECT_2",
    "KERNELS",
    "NOTHING",
    "FlatColumn",
    "Rows",
    "Scratch",
    "Stored",
    "UnsuitableError",
    "address",
    "buffer",
    "checked",
    "zeroed_bits",
]

KERNELS = "formatkit.formats.orc.kernels"
NOTHING = Content(0, 0)
"""Of streams that are not there."""

DIRECT, DICTIONARY, DIRECT_2, DICTIONARY_2 = range(4)
"""How columns are encoded: without or with a dictionary, in the first or second version."""

_FIRST_VERSIONS = (DIRECT, DICTIONARY)


class UnsuitableError(Exception):
    """The bytes are damaged, or hold what only the other decoder knows."""


class Scratch(threading.local):
    """Memory for what is decoded on the way. The columns that a thread decodes use it one after the other."""

    def __init__(self) -> None:
        self._rooms: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64) for _ in range(2)]

    def integers(self, count: int, number: int = 0) -> int:
        """The address of room for so many integers; there are two."""
        if len(self._rooms[number]) < count:
            self._rooms[number] = np.empty(count, np.int64)
        return address(self._rooms[number])


class Stored(NamedTuple):
    """A column as it is stored.

    Attributes:
        wanted: What is asked for.
        streams: Its streams, by their kinds.
        encoding: How they are encoded: with or without a dictionary, and in which version.
        entries: How many texts the dictionary has.
        scratch: What is shared with other columns.
        pool: Where the memory of arrays comes from.
    """

    wanted: Wanted
    streams: Mapping[int, Content]
    encoding: int
    entries: int
    scratch: Scratch
    pool: pa.MemoryPool | None

    def cursor(self, kind: StreamKind) -> npt.NDArray[np.int64]:
        """Numbers that tell where in a stream compiled code is."""
        stream = self.streams.get(kind, NOTHING)
        numbers = np.zeros(CURSOR_NUMBERS, np.int64)
        numbers[AT], numbers[END] = stream.address, stream.end
        return numbers


class Rows(NamedTuple):
    """Some rows of a column: how many, how many of them are not null, and which."""

    rows: int
    defined: int
    validity: npt.NDArray[np.uint8] | None

    @property
    def address(self) -> int:
        return 0 if self.validity is None else address(self.validity)

    @property
    def nulls(self) -> int:
        return self.rows - self.defined


class FlatColumn(ABC):
    """A column, decoded from its first row on."""

    def __init__(self, stored: Stored) -> None:
        self._code = kernels(KERNELS)
        self._stored = stored
        self._first_version = stored.encoding in _FIRST_VERSIONS
        self._has_nulls = StreamKind.PRESENT in stored.streams
        self._presence = stored.cursor(StreamKind.PRESENT)

    def fitting(self, rows: int) -> int:
        """How many of the next rows fit into one array: all of them, unless they are long texts."""
        return rows

    def next(self, rows: int) -> Column:
        """The next rows, of which there are so many. Raises `UnsuitableError` if they cannot be had in this way."""
        some = self._rows(rows, self._presence)
        kind, buffers = self._decode(some)
        validity_buffer = buffer(some.validity) if some.nulls and some.validity is not None else None
        return pa.Array.from_buffers(kind, rows, [validity_buffer, *buffers], some.nulls)

    def _rows(self, rows: int, presence: npt.NDArray[np.int64]) -> Rows:
        if not self._has_nulls:
            return Rows(rows, rows, None)
        validity = zeroed_bits(rows)
        defined = self._code.next_bits(address(presence), rows, address(validity), 0)
        return Rows(rows, checked(defined), validity)

    @abstractmethod
    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        """The type of some rows, and their buffers but for validity."""

    def _integers(self, cursor: npt.NDArray[np.int64], count: int, target: int, *, signed: bool) -> None:
        checked(self._code.next_integers(address(cursor), count, signed, self._first_version, target))

    def _spread(self, values: pa.Buffer, width: int, some: Rows) -> None:
        if some.nulls:
            self._code.spread_values(values.address, width, some.address, some.rows, some.defined)

    def _allocated(self, size: int) -> pa.Buffer:
        return pa.allocate_buffer(size, self._stored.pool)


def checked(outcome: int) -> int:
    """What compiled code returned, unless that says that it cannot go on."""
    if outcome == DAMAGED:
        raise UnsuitableError("a stream is damaged, or encoded in another way")
    return outcome


def zeroed_bits(count: int) -> npt.NDArray[np.uint8]:
    """Room for so many bits, and for some more that compiled code may write."""
    return np.zeros((count + 7) // 8 + 8, np.uint8)


def address(values: npt.NDArray[Any]) -> int:
    """Where values are in memory."""
    return buffer(values).address


def buffer(values: npt.NDArray[Any]) -> pa.Buffer:
    """The same memory for Arrow."""
    return pa.py_buffer(values.data)
