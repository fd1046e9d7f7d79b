"""Decodes a flat column of a row group with compiled code, some rows at a time.

pyarrow's decoder goes over the values of a page several times: levels, bits of validity, values, and another time for
decimals and text. Here they are decompressed and decoded while they are near the processor, into the final array.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.batches.arrow.decimals import check_decimals, decimals_fit
from formatkit.batches.compiled.loading import kernels
from formatkit.formats.parquet.dictionaries import Dictionary, dictionary_of_bytes, dictionary_of_values
from formatkit.formats.parquet.elements import Element, Kind, Physical, Repetition
from formatkit.formats.parquet.gathered_types import arrow_values, stored_dtype
from formatkit.formats.parquet.kernels import numbers
from formatkit.formats.parquet.page_content import KERNELS, UnsuitableError, address, thread_tools
from formatkit.formats.parquet.page_reader import DataPages, PageReader
from formatkit.formats.parquet.rooms import Room

__all__ = ["ColumnDecoder", "Step"]

_MOST_DATA_BYTES = 2**31 - 1
_MOST_STEP_BYTES = 256 * 1024 * 1024
_WIDE_BYTES = 16


class _Form(NamedTuple):
    """How values are stored and decoded, as `kernels.numbers` tells it."""

    kind: int
    stored_width: int
    width: int


class Step(NamedTuple):
    """The arguments of `kernels.columns.decode`."""

    cursor: int
    rows: int
    validity: int
    values: int
    data: int
    room: int


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
        self._rows = 0
        self._validity: npt.NDArray[np.uint8] | None
        self._values: pa.Buffer
        self._data: pa.ResizableBuffer | None
        self._dictionary: Dictionary | None = None
        self._dictionary_fits = True
        self._room: Room | None = None
        self._form = _form(element)
        self._optional = element.repetition is Repetition.OPTIONAL
        self._cursor = np.zeros(numbers.CURSOR_NUMBERS, np.int64)
        self._cursor[: numbers.OPTIONAL + 1] = (*self._form, self._optional)
        self._at_cursor = address(self._cursor)

    def next(self, rows: int) -> pa.Array[Any]:
        """The next rows, of which there are so many. Raises `UnsuitableError` if they cannot be had in this way."""
        self.begin(rows)
        self.use_tools_of_thread()
        self.go_on(self._call())
        return self.end()

    def begin(self, rows: int) -> Step:
        """Make room for the next rows; returns the arguments for compiled code."""
        kind, _, width = self._form
        if rows * max(width, 4) > _MOST_STEP_BYTES:
            raise UnsuitableError("the values are too long for one array")
        if self._held is None:
            self._turn(next(self._pages, None))
        self._validity = _zeroed_bits(rows) if self._optional else None
        self._data = self._room_for_data(rows) if kind == numbers.BYTES else None
        if kind == numbers.BYTES:
            self._values = pa.allocate_buffer(4 * (rows + 1), self._pool)
        elif kind == numbers.BITS:
            self._values = _buffer(_zeroed_bits(rows))
        else:
            self._values = pa.allocate_buffer(width * rows, self._pool)
        self._rows = rows
        self._cursor[numbers.DONE : numbers.FILLED + 1] = 0
        self._cursor[numbers.MAX_HIGH : numbers.MAX_LOW + 1] = 0
        return self._step()

    def _step(self) -> Step:
        validity, data = self._validity, self._data
        at, room = (0, 0) if data is None else (data.address, data.size)
        at_validity = 0 if validity is None else address(validity)
        return Step(self._at_cursor, self._rows, at_validity, self._values.address, at, room)

    def use_tools_of_thread(self) -> None:
        """To be called on the thread that calls compiled code."""
        tools = thread_tools()
        self._cursor[numbers.TOOLS], self._cursor[numbers.INDICES] = tools.address, tools.indices(self._rows)

    def go_on(self, outcome: int) -> None:
        """Do what compiled code asks for, until all rows that were begun are decoded."""
        while outcome != 0:
            if outcome == numbers.OUT_OF_PAGES:
                self._turn(next(self._pages, None))
            elif outcome == numbers.SHORT_OF_ROOM and self._data is not None:
                cursor = self._cursor
                self._data.resize(self._more_room(int(cursor[numbers.WANTED]), int(cursor[numbers.DONE]), self._rows))
            elif outcome == numbers.DAMAGED:
                raise self._reader.contradiction("the levels and values of a page do not agree")
            else:
                raise UnsuitableError("a page is encoded in another way")
            outcome = self._call()

    def _call(self) -> int:
        outcome: int = self._decode(*self._step())
        return outcome

    def end(self) -> pa.Array[Any]:
        """The rows that were begun."""
        rows, validity, data = self._rows, self._validity, self._data
        self._left -= rows
        if not self._left:
            self._check_end()
        nulls = int(self._cursor[numbers.NULLS])
        buffers = [_buffer(validity) if nulls and validity is not None else None, self._values]
        if data is not None:
            filled = int(self._cursor[numbers.FILLED])
            self._value_bytes = filled / max(rows, 1)
            data.resize(filled, shrink_to_fit=2 * filled < data.size)
            buffers.append(data)
        # The array is the caller's alone.
        del self._values, self._validity, self._data
        array = pa.Array.from_buffers(self._kind, rows, buffers, nulls)
        if self._element.kind is Kind.DECIMAL and not self._digits_fit():
            check_decimals(array, self._element.name)
        return array

    def _digits_fit(self) -> bool:
        """Whether the decimals of the last rows surely have no more digits than their type."""
        limit = self._digits_limit
        high, low = int(self._cursor[numbers.MAX_HIGH]), int(self._cursor[numbers.MAX_LOW])
        # The number whose complement this is may be larger by one.
        plain_fit = high < limit >> 64 or (high == 0 and 2 * low + 2 < limit)
        return plain_fit and self._dictionary_fits

    @property
    def _digits_limit(self) -> int:
        limit: int = 10 ** cast("pa.Decimal128Type[Any, Any]", self._kind).precision
        return limit

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
            raise self._reader.contradiction("its pages have other rows than the row group")
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
            raise self._reader.contradiction("its pages have other rows than the row group")
        if next(self._pages, None) is not None:
            raise self._reader.contradiction("its pages have other rows than the row group")
        self._held = self._dictionary = self._room = None

    def _read_dictionary(self) -> Dictionary:
        if self._form.kind == numbers.BYTES:
            dictionary = dictionary_of_bytes(self._reader)
            self._value_bytes = max(self._value_bytes, dictionary.mean_length)
            return dictionary
        stored, dictionary = dictionary_of_values(self._reader, stored_dtype(self._element))
        values = arrow_values(self._element, stored)
        if self._element.kind is Kind.DECIMAL:
            self._dictionary_fits = self._entries_fit(stored, values)
        return dictionary if values is stored else Dictionary(len(stored), address(values), 0, values)

    def _entries_fit(self, stored: npt.NDArray[Any], values: npt.NDArray[Any]) -> bool:
        """Whether the decimals of a dictionary have no more digits than their type, as stored and as Arrow's values."""
        if len(stored) and stored.dtype.kind == "i":
            return max(-int(stored.min()), int(stored.max())) < self._digits_limit
        return decimals_fit(pa.Array.from_buffers(self._kind, len(values), [None, _buffer(values)]))


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
    return pa.py_buffer(values.data)


def _zeroed_bits(count: int) -> npt.NDArray[np.uint8]:
    return np.zeros((count + 7) // 8 + 8, np.uint8)
