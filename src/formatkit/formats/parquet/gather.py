"""Takes single values out of the pages of a flat column, without decoding the others.

pyarrow decodes every value of a page. Where few rows of many are wanted, most of that work is in vain. Here the pages
that hold wanted rows are decompressed, and compiled code follows their runs and lengths to the wanted values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.batches.compiled.loading import kernels
from formatkit.contract.storage import ByteRange
from formatkit.forks import cached
from formatkit.formats.parquet.dictionaries import (
    NO_DICTIONARY,
    Dictionary,
    dictionary_of_bytes,
    dictionary_of_values,
)
from formatkit.formats.parquet.elements import Element, Physical, Repetition
from formatkit.formats.parquet.gathered_types import arrow_array, arrow_values, stored_dtype
from formatkit.formats.parquet.kernels.numbers import BITS, BYTES, DAMAGED, FIXED, SHORT_OF_ROOM
from formatkit.formats.parquet.page_content import KERNELS, UnsuitableError, address, thread_tools
from formatkit.formats.parquet.page_reader import PageReader
from formatkit.formats.parquet.row_ranges import RowNumbers

__all__ = ["ColumnGatherer"]

_MAX_DATA_BYTES = 2**31 - 1
_USUAL_BYTES = 64 * 1024

_Flags = npt.NDArray[np.bool_]


class ColumnGatherer:
    """One column of one row group.

    Args:
        reader: Its pages.
        element: How it is stored; it stands at the top of the schema and is not repeated.
        kind: The type that pyarrow decodes it to.
    """

    def __init__(self, reader: PageReader, element: Element, kind: pa.DataType) -> None:
        self._kernels = kernels(KERNELS)
        self._reader = reader
        self._element = element
        self._kind = kind
        self._optional = element.repetition is Repetition.OPTIONAL
        self._dtype = np.dtype(np.int64) if self._has_byte_arrays else stored_dtype(element)
        match element.physical:
            case Physical.BYTE_ARRAY:
                self._form = BYTES
            case Physical.BOOLEAN:
                self._form = BITS
            case _:
                self._form = FIXED

    @property
    def _has_byte_arrays(self) -> bool:
        return self._element.physical is Physical.BYTE_ARRAY

    def ranges(self, rows: RowNumbers) -> list[ByteRange]:
        """What is read for some rows."""
        return self._reader.ranges(rows)

    def at(self, rows: RowNumbers) -> pa.Array[Any]:
        """The values at some rows of the row group. Raises `UnsuitableError` if they cannot be had in this way."""
        count, width = len(rows), 0 if self._has_byte_arrays else self._dtype.itemsize
        found, lengths = np.zeros(count, self._dtype), np.zeros(count if self._has_byte_arrays else 0, np.int64)
        places, indices = np.zeros(count, np.int64), np.empty(count, np.int32)
        at_rows, at_places, at_indices = address(rows), address(places), address(indices)
        at_found, at_lengths = address(found), address(lengths)
        data, progress = np.empty(_USUAL_BYTES if self._has_byte_arrays else 0, np.uint8), np.zeros(3, np.int64)
        done = 0
        for start, end, table, need_dictionary, longest, _memory in self._reader.read(rows):
            dictionary = self._dictionary if need_dictionary else NO_DICTIONARY
            progress[0] = 0
            while True:
                progress[2] = len(data)
                outcome = self._kernels.gather(
                    self._form,
                    width,
                    self._optional,
                    address(table),
                    len(table),
                    at_rows,
                    at_places,
                    at_indices,
                    dictionary.values,
                    dictionary.lengths,
                    dictionary.size,
                    at_found,
                    at_lengths,
                    address(data),
                    address(progress),
                    thread_tools().with_room(longest),
                )
                if outcome != SHORT_OF_ROOM:
                    break
                data = _with_room(data, *progress[1:].tolist())
            if outcome == DAMAGED:
                raise self._reader.contradiction("the levels and values of a page do not agree")
            if outcome < 0:
                raise UnsuitableError("a page is encoded in another way")
            done += end - start
        if done != count:
            raise self._reader.contradiction("some rows are in no page")
        valid = places >= 0 if self._optional else None
        return self._variable(data, lengths, valid) if self._has_byte_arrays else self._fixed(found, valid)

    def _fixed(self, found: npt.NDArray[Any], valid: _Flags | None) -> pa.Array[Any]:
        count = len(found)
        if self._element.physical is Physical.BOOLEAN:
            return arrow_array(self._kind, np.packbits(found, bitorder="little"), count, valid)
        return arrow_array(self._kind, arrow_values(self._element, found), count, valid)

    def _variable(
        self, data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64], valid: _Flags | None
    ) -> pa.Array[Any]:
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        # A copy, because there may be room for many more.
        return arrow_array(self._kind, data[: offsets[-1]].copy(), len(lengths), valid, offsets)

    @cached
    def _dictionary(self) -> Dictionary:
        if self._has_byte_arrays:
            return dictionary_of_bytes(self._reader)
        return dictionary_of_values(self._reader, self._dtype)[1]


def _with_room(data: npt.NDArray[np.uint8], filled: int, wanted: int) -> npt.NDArray[np.uint8]:
    """The first bytes of `data`, in memory that has room for as many as are wanted and some more."""
    if wanted > _MAX_DATA_BYTES:
        raise UnsuitableError("the values are too long for one array")
    larger = np.empty(min(2 * wanted, _MAX_DATA_BYTES), np.uint8)
    larger[:filled] = data[:filled]
    return larger
