"""Decodes a flat column of a row group with compiled code, some rows at a time.

pyarrow's decoder goes over the values of a page several times: levels, bits of validity, values, and another time for
decimals and text. Here they are decompressed and decoded while they are near the processor, into the final array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.batches.compiled.loading import kernels
from formatkit.formats.parquet.dictionaries import Dictionary, dictionary_of_bytes, dictionary_of_values
from formatkit.formats.parquet.elements import Element, Kind, Physical, Repetition
from formatkit.formats.parquet.gathered_types import arrow_values, stored_dtype
from formatkit.formats.parquet.kernels import numbers
from formatkit.formats.parquet.page_content import KERNELS, UnsuitableError, address, thread_tools
from formatkit.formats.parquet.page_reader import DataPages, PageReader
from formatkit.formats.parquet.rooms import Room

__all__ = ["ColumnDecoder"]

_MOST_DATA_BYTES = 2**31 - 1
_MOST_STEP_BYTES = 256 * 1024 * 1024
_WIDE_BYTES = 16


class _Form(NamedTuple):
    """How values are stored and decoded, as `kernels.numbers` tells it."""

    kind: int
    stored_width: int
    width: int


class ColumnDecoder:
    """One column of one row group, decoded from its first row on.

    Args:
        reader: Its pages.
        element: How it is stored; it stands at the top of the schema and is not repeated.
        kind: The type that pyarrow decodes it to.
        rows: How many rows it has.
        value_bytes: How many bytes each of its values has, about.
        window: About how many of its bytes are read at once.
        pool: Where the memory of arrays comes from.
    """

    def __init__(
        self,
        reader: PageReader,
        element: Element,
        kind: pa.DataType,
        rows: int,
        value_bytes: float,
        window: int,
        pool: pa.MemoryPool | None,
    ) -> None:
        self._decode = kernels(KERNELS).decode
        self._reader = reader
        self._element = element
        self._kind = kind
        self._left = rows
        self._value_bytes = value_bytes
        self._pool = pool
        self._pages = reader.read_all(window)
        self._held: object = None
        self._dictionary: Dictionary | None = None
        self._room: Room | None = None
        self._form = _form(element)
        self._optional = element.repetition is Repetition.OPTIONAL
        self._cursor = np.zeros(numbers.CURSOR_NUMBERS, np.int64)
        self._cursor[: numbers.OPTIONAL + 1] = (*self._form, self._optional)
        self._at_cursor = address(self._cursor)

    def next(self, rows: int) -> pa.Array[Any]:
        """The next rows, of which there are so many. Raises `UnsuitableError` if they cannot be had in this way."""
        kind, _, width = self._form
        if rows * max(width, 4) > _MOST_STEP_BYTES:
            raise UnsuitableError("the values are too long for one array")
        validity = _zeroed_bits(rows) if self._optional else None
        if kind == numbers.BYTES:
            values = pa.allocate_buffer(4 * (rows + 1), self._pool)
        elif kind == numbers.BITS:
            values = _buffer(_zeroed_bits(rows))
        else:
            values = pa.allocate_buffer(width * rows, self._pool)
        data = self._run(rows, 0 if validity is None else address(validity), values.address)
        self._left -= rows
        if not self._left:
            self._check_end()
        nulls = int(self._cursor[numbers.NULLS])
        buffers = [_buffer(validity) if nulls and validity is not None else None, values]
        if kind == numbers.BYTES:
            buffers.append(data)
        return pa.Array.from_buffers(self._kind, rows, buffers, nulls)

    def _run(self, rows: int, validity: int, values: int) -> pa.ResizableBuffer | None:
        """Decode rows into buffers; returns the one for byte arrays."""
        cursor, tools = self._cursor, thread_tools()
        cursor[numbers.DONE : numbers.FILLED + 1] = 0
        cursor[numbers.TOOLS], cursor[numbers.INDICES] = tools.address, tools.indices(rows)
        data = self._room_for_data(rows) if self._form.kind == numbers.BYTES else None
        at, room = (0, 0) if data is None else (data.address, data.size)
        while (outcome := self._decode(self._at_cursor, rows, validity, values, at, room)) != 0:
            if outcome == numbers.OUT_OF_PAGES:
                self._turn(next(self._pages, None))
            elif outcome == numbers.SHORT_OF_ROOM and data is not None:
                room = self._more_room(int(cursor[numbers.WANTED]), int(cursor[numbers.DONE]), rows)
                data.resize(room)
                at = data.address
            else:
                raise UnsuitableError("a page is damaged, or encoded in another way")
        if data is not None:
            filled = int(cursor[numbers.FILLED])
            self._value_bytes = filled / max(rows, 1)
            data.resize(filled, shrink_to_fit=2 * filled < room)
        return data

    def _room_for_data(self, rows: int) -> pa.ResizableBuffer:
        # The next values are most likely about as long. Pages in plain encoding want room for all of their values.
        size = min(int(self._value_bytes * rows * 1.125) + 64 * 1024, _MOST_DATA_BYTES)
        return pa.allocate_buffer(size, self._pool, resizable=True)

    def _more_room(self, wanted: int, done: int, rows: int) -> int:
        if wanted > _MOST_DATA_BYTES:
            raise UnsuitableError("the values are too long for one array")
        likely = wanted * rows // done if done else wanted
        return min(max(wanted, min(likely, 2 * wanted)), _MOST_DATA_BYTES)

    def _turn(self, pages: DataPages | None) -> None:
        """Go on with other pages."""
        if pages is None:
            raise UnsuitableError("the pages have other rows than the row group")
        if pages.need_dictionary and self._dictionary is None:
            self._dictionary = self._read_dictionary()
            self._cursor[numbers.DICTIONARY_COUNT : numbers.DICTIONARY_LENGTHS + 1] = self._dictionary[:3]
        if pages.longest and (self._room is None or len(self._room) < pages.longest + numbers.SLACK):
            self._room = Room(pages.longest + numbers.SLACK)
            self._cursor[numbers.ROOM], self._cursor[numbers.ROOM_BYTES] = self._room.address, len(self._room)
        self._held = pages
        self._cursor[numbers.PAGES : numbers.PAGE + 1] = address(pages.table), len(pages.table), 0

    def _check_end(self) -> None:
        cursor = self._cursor
        if cursor[numbers.PAGE_LEFT] or cursor[numbers.PAGE] != cursor[numbers.PAGE_COUNT]:
            raise UnsuitableError("the pages have other rows than the row group")
        if next(self._pages, None) is not None:
            raise UnsuitableError("the pages have other rows than the row group")
        self._held = self._dictionary = self._room = None

    def _read_dictionary(self) -> Dictionary:
        if self._form.kind == numbers.BYTES:
            return dictionary_of_bytes(self._reader)
        stored, dictionary = dictionary_of_values(self._reader, stored_dtype(self._element))
        values = arrow_values(self._element, stored)
        return dictionary if values is stored else Dictionary(len(stored), address(values), 0, values)


def _form(element: Element) -> _Form:
    match element.physical:
        case Physical.BYTE_ARRAY:
            return _Form(numbers.BYTES, 0, 0)
        case Physical.BOOLEAN:
            return _Form(numbers.BITS, 0, 0)
        case physical:
            width = stored_dtype(element).itemsize
            if element.kind is not Kind.DECIMAL:
                return _Form(numbers.FIXED, width, width)
            wide = numbers.BIG_ENDIAN if physical is Physical.FIXED else numbers.WIDE
            return _Form(wide, width, _WIDE_BYTES)


def _buffer(values: npt.NDArray[np.uint8]) -> pa.Buffer:
    return pa.py_buffer(values)  # type: ignore[arg-type]  # the stubs do not know that arrays are buffers


def _zeroed_bits(count: int) -> npt.NDArray[np.uint8]:
    return np.zeros((count + 7) // 8 + 8, np.uint8)
