"""Decodes columns of texts and bytes, with and without a dictionary."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.formats.orc.kernels.numbers import LONGEST_RUN, SLACK
from formatkit.formats.orc.stored_columns import NOTHING, FlatColumn, Rows, Stored, UnsuitableError, address, checked
from formatkit.formats.orc.stripes import StreamKind
from formatkit.formats.orc.tail import Kind

__all__ = ["TEXTS", "DictionaryTexts", "Texts"]

TEXTS: Mapping[Kind, pa.DataType] = {
    Kind.STRING: pa.string(),
    Kind.VARCHAR: pa.string(),
    Kind.CHAR: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.GEOMETRY: pa.binary(),
    Kind.GEOGRAPHY: pa.binary(),
}
_MOST_TEXT_BYTES = 2**31 - 1 - SLACK
_VALUES_PER_BYTE = 128
"""No run of integers has more values for each of its bytes."""


class Texts(FlatColumn):
    """Texts that stand one behind the other."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        self._lengths = stored.cursor(StreamKind.LENGTH)
        self._data = stored.streams.get(StreamKind.DATA, NOTHING)
        self._done = 0

    def fitting(self, rows: int) -> int:
        if self._data.size - self._done <= _MOST_TEXT_BYTES:
            return rows
        some = self._rows(rows, self._presence.copy())
        lengths = np.empty(some.defined, np.int64)
        self._integers(self._lengths.copy(), some.defined, address(lengths), signed=False)
        return _fitting(some, lengths)

    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        lengths = self._stored.scratch.integers(some.defined)
        self._integers(self._lengths, some.defined, lengths, signed=False)
        offsets = self._allocated(4 * (some.rows + 1))
        available = min(self._data.size - self._done, _MOST_TEXT_BYTES)
        size = checked(
            self._code.text_offsets(lengths, some.rows, some.defined, some.address, offsets.address, available)
        )
        data = self._allocated(size)
        if size:
            stored = pa.foreign_buffer(self._data.address + self._done, size)
            np.frombuffer(memoryview(data), np.uint8)[:] = np.frombuffer(memoryview(stored), np.uint8)
        self._done += size
        return TEXTS[self._stored.wanted.column.type.kind], [offsets, data]


class DictionaryTexts(FlatColumn):
    """Texts of which each is stored once."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        self._indices = stored.cursor(StreamKind.DATA)
        self._starts, self._lengths = self._read_dictionary()
        self._longest = int(self._lengths.max(initial=0))

    def _read_dictionary(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where texts begin, and how long they are."""
        stored, entries = self._stored, self._stored.entries
        texts = stored.streams.get(StreamKind.DICTIONARY_DATA, NOTHING)
        if entries > stored.streams.get(StreamKind.LENGTH, NOTHING).size * _VALUES_PER_BYTE + LONGEST_RUN:
            raise UnsuitableError("the dictionary cannot have so many entries")
        lengths = np.empty(entries, np.int64)
        self._integers(stored.cursor(StreamKind.LENGTH), entries, address(lengths), signed=False)
        # Lengths that are too large one by one must not add up to something small.
        if entries and (lengths.min() < 0 or lengths.max() > texts.size):
            raise UnsuitableError("texts of the dictionary are longer than it is")
        ends = np.cumsum(lengths)
        if texts.size != (ends[-1] if entries else 0):
            raise UnsuitableError("the dictionary does not have as many bytes as its texts")
        return texts.address + ends - lengths, lengths

    def fitting(self, rows: int) -> int:
        if rows * self._longest <= _MOST_TEXT_BYTES:
            return rows
        some = self._rows(rows, self._presence.copy())
        indices = np.empty(some.defined, np.int64)
        self._integers(self._indices.copy(), some.defined, address(indices), signed=False)
        # Indices that are out of range are found when the rows are decoded.
        return _fitting(some, self._lengths.take(indices, mode="clip"))

    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        indices = self._stored.scratch.integers(some.defined)
        self._integers(self._indices, some.defined, indices, signed=False)
        at_lengths = address(self._lengths)
        size = checked(self._code.expanded_length(indices, some.defined, at_lengths, len(self._lengths)))
        if size > _MOST_TEXT_BYTES:
            raise UnsuitableError("the texts are too long for one array")
        offsets, data = self._allocated(4 * (some.rows + 1)), self._allocated(size + SLACK)
        self._code.expand_texts(
            indices,
            some.rows,
            some.defined,
            some.address,
            address(self._starts),
            at_lengths,
            offsets.address,
            data.address,
        )
        return TEXTS[self._stored.wanted.column.type.kind], [offsets, data.slice(0, size)]


def _fitting(some: Rows, lengths: npt.NDArray[np.int64]) -> int:
    """How many rows fit into one array, of whose values these are the lengths; one at least."""
    values = int(np.searchsorted(np.cumsum(lengths), _MOST_TEXT_BYTES, side="right"))
    if values == some.defined:
        return some.rows
    if some.validity is None:
        return max(values, 1)
    valid = np.unpackbits(some.validity, count=some.rows, bitorder="little")
    return max(int(np.flatnonzero(valid)[values]), 1)
