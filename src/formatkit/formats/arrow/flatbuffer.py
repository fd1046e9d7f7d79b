"""As much of the FlatBuffers encoding as it takes to find numbers in Arrow's metadata."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["FlatbufferError", "Table"]

_OFFSET = struct.Struct("<I")
_BACK = struct.Struct("<i")
_SLOT = struct.Struct("<H")


class FlatbufferError(ValueError):
    """The bytes are no such table."""


class Table:
    """A table: its fields are found by their number in the schema, and may all be absent."""

    def __init__(self, data: memoryview, start: int) -> None:
        self._data = data
        self._start = start
        self._slots = start - self._unpack(_BACK, start)[0]
        self._slots_end = self._slots + self._unpack(_SLOT, self._slots)[0]

    @classmethod
    def root(cls, data: memoryview) -> Table:
        """The table that a buffer holds."""
        if len(data) < _OFFSET.size:
            raise FlatbufferError(f"{len(data)} bytes hold no table")
        return cls(data, _OFFSET.unpack_from(data)[0])

    def number(self, field: int, kind: str, default: int = 0) -> int:
        """The scalar of a field; `kind` is its letter in `struct`."""
        at = self._find(field)
        return default if at is None else int(self._unpack(struct.Struct(f"<{kind}"), at)[0])

    def table(self, field: int) -> Table:
        """The table that a field refers to."""
        return Table(self._data, self._referred(field))

    def structs(self, field: int, layout: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """The elements of a field that is a vector of structs; none if it is absent."""
        if self._find(field) is None:
            return
        start = self._referred(field)
        for number in range(self._unpack(_OFFSET, start)[0]):
            yield self._unpack(layout, start + _OFFSET.size + number * layout.size)

    def _find(self, field: int) -> int | None:
        # The first two slots are the sizes of the slots and of the table.
        slot = self._slots + _SLOT.size * (2 + field)
        if slot >= self._slots_end:
            return None
        distance = self._unpack(_SLOT, slot)[0]
        return self._start + distance if distance else None

    def _referred(self, field: int) -> int:
        at = self._find(field)
        if at is None:
            raise FlatbufferError(f"field {field} is absent")
        return at + int(self._unpack(_OFFSET, at)[0])

    def _unpack(self, layout: struct.Struct, at: int) -> tuple[Any, ...]:
        # A negative offset would count from the end.
        if not 0 <= at <= len(self._data) - layout.size:
            raise FlatbufferError(f"it refers to byte {at} of {len(self._data)}")
        return layout.unpack_from(self._data, at)
