"""Decodes flat columns of a stripe with compiled code, some rows at a time.

pyarrow's decoder makes batches of ORC's own kind first and builds Arrow arrays of them value by value, and it trusts
what it reads. Here streams are decoded into the final buffers, and every length is compared with what is there.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.batches.arrow.types import Column
from formatkit.batches.compiled.loading import Payback, kernels
from formatkit.formats.orc.kernels.numbers import AT, CURSOR_NUMBERS, DAMAGED, END, LONGEST_RUN, SLACK
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.protobuf import integers
from formatkit.formats.orc.stripe_streams import Content, Contents
from formatkit.formats.orc.stripes import UTC, StreamKind, StripeFooter
from formatkit.formats.orc.tail import Kind

__all__ = ["PAYBACK", "FlatColumn", "Scratch", "UnsuitableError", "flat_column", "has_unusual_root", "is_flat"]

_KERNELS = "formatkit.formats.orc.kernels"

PAYBACK = Payback(_KERNELS, 128 * 1024 * 1024)
"""When compiled code is used."""

_NOTHING = Content(0, 0)
_MOST_TEXT_BYTES = 2**31 - 1 - SLACK
_VALUES_PER_BYTE = 128
"""No run of integers has more values for each of its bytes."""

_LIMITS = {
    Kind.SHORT: (-(1 << 15), (1 << 15) - 1),
    Kind.INT: (-(1 << 31), (1 << 31) - 1),
    Kind.DATE: (-(1 << 31), (1 << 31) - 1),
}
_FLOATS = {Kind.FLOAT: (4, pa.float32()), Kind.DOUBLE: (8, pa.float64())}
_TEXTS: Mapping[Kind, pa.DataType] = {
    Kind.STRING: pa.string(),
    Kind.VARCHAR: pa.string(),
    Kind.CHAR: pa.string(),
    Kind.BINARY: pa.binary(),
}
_TIMESTAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)
_FLAT = frozenset({Kind.BOOLEAN, Kind.BYTE, Kind.LONG, Kind.DECIMAL, *_LIMITS, *_FLOATS, *_TEXTS, *_TIMESTAMPS})
_DIRECT, _DICTIONARY, _DIRECT_2, _DICTIONARY_2 = range(4)
_FIRST_VERSIONS = (_DIRECT, _DICTIONARY)
_DIRECT_ENCODINGS = (_DIRECT, _DIRECT_2)
_ENCODINGS = {
    **dict.fromkeys((Kind.BOOLEAN, Kind.BYTE, *_FLOATS), (_DIRECT,)),
    **dict.fromkeys(_TEXTS, (_DIRECT, _DICTIONARY, _DIRECT_2, _DICTIONARY_2)),
}


class UnsuitableError(Exception):
    """The bytes are damaged, or hold what only the other decoder knows."""


def is_flat(wanted: Wanted) -> bool:
    """Whether a column is of a type that compiled code decodes."""
    return wanted.column.type.kind in _FLAT


def has_unusual_root(footer: StripeFooter) -> bool:
    """Whether whole rows can be null, which no writer makes of them, or are encoded in an unknown way."""
    streams = any(stream.column == 0 and stream.kind < StreamKind.ROW_INDEX for stream in footer.streams)
    return streams or integers(footer.encodings[0]).get(1, _DIRECT) != _DIRECT


class Scratch(threading.local):
    """Memory for what is decoded on the way. The columns that a thread decodes use it one after the other."""

    def __init__(self) -> None:
        self._rooms: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64) for _ in range(2)]

    def integers(self, count: int, number: int = 0) -> int:
        """The address of room for so many integers; there are two."""
        if len(self._rooms[number]) < count:
            self._rooms[number] = np.empty(count, np.int64)
        return _address(self._rooms[number])


class _Stored(NamedTuple):
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
        stream = self.streams.get(kind, _NOTHING)
        numbers = np.zeros(CURSOR_NUMBERS, np.int64)
        numbers[AT], numbers[END] = stream.address, stream.end
        return numbers


class _Rows(NamedTuple):
    """Some rows of a column: how many, how many of them are not null, and which."""

    rows: int
    defined: int
    validity: npt.NDArray[np.uint8] | None

    @property
    def address(self) -> int:
        return 0 if self.validity is None else _address(self.validity)

    @property
    def nulls(self) -> int:
        return self.rows - self.defined

    def fitting(self, lengths: npt.NDArray[np.int64]) -> int:
        """How many of them fit into one array, of whose values these are the lengths; one at least."""
        values = int(np.searchsorted(np.cumsum(lengths), _MOST_TEXT_BYTES, side="right"))
        if values == self.defined:
            return self.rows
        if self.validity is None:
            return max(values, 1)
        valid = np.unpackbits(self.validity, count=self.rows, bitorder="little")
        return max(int(np.flatnonzero(valid)[values]), 1)


def flat_column(
    wanted: Wanted, contents: Contents, footer: StripeFooter, scratch: Scratch, pool: pa.MemoryPool | None
) -> FlatColumn:
    """Decode a column of a stripe whose streams were read. Raises `UnsuitableError` if that cannot be done here."""
    type_id, kind = wanted.column.type_id, wanted.column.type.kind
    fields = integers(footer.encodings[type_id])
    streams = {stream: content for (column, stream), content in contents.items() if column == type_id}
    stored = _Stored(wanted, streams, fields.get(1, 0), fields.get(2, 0), scratch, pool)
    if stored.encoding not in _ENCODINGS.get(kind, _DIRECT_ENCODINGS):
        raise UnsuitableError("it is encoded in another way")
    if kind in _TEXTS:
        return _Texts(stored) if stored.encoding in _DIRECT_ENCODINGS else _DictionaryTexts(stored)
    if kind in _FLOATS:
        return _Floats(stored)
    if kind in _TIMESTAMPS:
        if kind is Kind.TIMESTAMP and footer.timezone != UTC:
            raise UnsuitableError("its timestamps were written in another time zone")
        return _Timestamps(stored)
    return _OTHERS.get(kind, _Integers)(stored)


class FlatColumn(ABC):
    """A column, decoded from its first row on."""

    def __init__(self, stored: _Stored) -> None:
        self._code = kernels(_KERNELS)
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
        validity_buffer = _buffer(some.validity) if some.nulls and some.validity is not None else None
        return pa.Array.from_buffers(kind, rows, [validity_buffer, *buffers], some.nulls)

    def _rows(self, rows: int, presence: npt.NDArray[np.int64]) -> _Rows:
        if not self._has_nulls:
            return _Rows(rows, rows, None)
        validity = _zeroed_bits(rows)
        defined = self._code.next_bits(_address(presence), rows, _address(validity), 0)
        return _Rows(rows, _checked(defined), validity)

    @abstractmethod
    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        """The type of some rows, and their buffers but for validity."""

    def _integers(self, cursor: npt.NDArray[np.int64], count: int, target: int, *, signed: bool) -> None:
        _checked(self._code.next_integers(_address(cursor), count, signed, self._first_version, target))

    def _spread(self, values: pa.Buffer, width: int, some: _Rows) -> None:
        if some.nulls:
            self._code.spread_values(values.address, width, some.address, some.rows, some.defined)

    def _allocated(self, size: int) -> pa.Buffer:
        return pa.allocate_buffer(size, self._stored.pool)


class _Integers(FlatColumn):
    def __init__(self, stored: _Stored) -> None:
        super().__init__(stored)
        self._data = stored.cursor(StreamKind.DATA)

    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        kind = self._stored.wanted.column.type.kind
        if (limits := _LIMITS.get(kind)) is None:
            values = self._allocated(8 * some.rows)
            self._integers(self._data, some.defined, values.address, signed=True)
            self._spread(values, 8, some)
            return pa.int64(), [values]
        wide = self._stored.scratch.integers(some.defined)
        self._integers(self._data, some.defined, wide, signed=True)
        values = self._allocated(4 * some.rows)
        _checked(self._code.narrowed(wide, some.defined, *limits, values.address))
        self._spread(values, 4, some)
        return pa.date32() if kind is Kind.DATE else pa.int32(), [values]


class _Bytes(FlatColumn):
    def __init__(self, stored: _Stored) -> None:
        super().__init__(stored)
        self._data = stored.cursor(StreamKind.DATA)

    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        values = self._allocated(4 * some.rows)
        _checked(self._code.next_bytes(_address(self._data), some.defined, values.address))
        self._spread(values, 4, some)
        return pa.int32(), [values]


class _Booleans(FlatColumn):
    def __init__(self, stored: _Stored) -> None:
        super().__init__(stored)
        self._data = stored.cursor(StreamKind.DATA)

    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        bits = _zeroed_bits(some.rows)
        _checked(self._code.next_bits(_address(self._data), some.defined, _address(bits), 0))
        if some.nulls and some.validity is not None:
            spread = np.zeros(some.rows, np.uint8)
            valid = np.unpackbits(some.validity, count=some.rows, bitorder="little").view(np.bool_)
            spread[valid] = np.unpackbits(bits, count=some.defined, bitorder="little")
            bits = np.packbits(spread, bitorder="little")
        return pa.bool_(), [_buffer(bits)]


class _Floats(FlatColumn):
    def __init__(self, stored: _Stored) -> None:
        super().__init__(stored)
        self._data = stored.streams.get(StreamKind.DATA, _NOTHING)
        self._done = 0

    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        width, kind = _FLOATS[self._stored.wanted.column.type.kind]
        start, size = self._done, some.defined * width
        if size > self._data.size - start:
            raise UnsuitableError("there are fewer values than rows")
        self._done += size
        values = self._allocated(width * some.rows)
        if size:
            stored = pa.foreign_buffer(self._data.address + start, size)
            np.frombuffer(memoryview(values), np.uint8)[:size] = np.frombuffer(memoryview(stored), np.uint8)
        self._spread(values, width, some)
        return kind, [values]


class _Texts(FlatColumn):
    def __init__(self, stored: _Stored) -> None:
        super().__init__(stored)
        self._lengths = stored.cursor(StreamKind.LENGTH)
        self._data = stored.streams.get(StreamKind.DATA, _NOTHING)
        self._done = 0

    def fitting(self, rows: int) -> int:
        if self._data.size - self._done <= _MOST_TEXT_BYTES:
            return rows
        some = self._rows(rows, self._presence.copy())
        lengths = np.empty(some.defined, np.int64)
        self._integers(self._lengths.copy(), some.defined, _address(lengths), signed=False)
        return some.fitting(lengths)

    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        lengths = self._stored.scratch.integers(some.defined)
        self._integers(self._lengths, some.defined, lengths, signed=False)
        offsets = self._allocated(4 * (some.rows + 1))
        available = min(self._data.size - self._done, _MOST_TEXT_BYTES)
        size = _checked(
            self._code.text_offsets(lengths, some.rows, some.defined, some.address, offsets.address, available)
        )
        data = self._allocated(size)
        if size:
            stored = pa.foreign_buffer(self._data.address + self._done, size)
            np.frombuffer(memoryview(data), np.uint8)[:] = np.frombuffer(memoryview(stored), np.uint8)
        self._done += size
        return _TEXTS[self._stored.wanted.column.type.kind], [offsets, data]


class _DictionaryTexts(FlatColumn):
    def __init__(self, stored: _Stored) -> None:
        super().__init__(stored)
        self._indices = stored.cursor(StreamKind.DATA)
        self._starts, self._lengths = self._read_dictionary()
        self._longest = int(self._lengths.max(initial=0))

    def _read_dictionary(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where texts begin, and how long they are."""
        stored, entries = self._stored, self._stored.entries
        texts = stored.streams.get(StreamKind.DICTIONARY_DATA, _NOTHING)
        if entries > stored.streams.get(StreamKind.LENGTH, _NOTHING).size * _VALUES_PER_BYTE + LONGEST_RUN:
            raise UnsuitableError("the dictionary cannot have so many entries")
        lengths = np.empty(entries, np.int64)
        self._integers(stored.cursor(StreamKind.LENGTH), entries, _address(lengths), signed=False)
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
        self._integers(self._indices.copy(), some.defined, _address(indices), signed=False)
        # Indices that are out of range are found when the rows are decoded.
        return some.fitting(self._lengths.take(indices, mode="clip"))

    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        indices = self._stored.scratch.integers(some.defined)
        self._integers(self._indices, some.defined, indices, signed=False)
        at_lengths = _address(self._lengths)
        size = _checked(self._code.expanded_length(indices, some.defined, at_lengths, len(self._lengths)))
        if size > _MOST_TEXT_BYTES:
            raise UnsuitableError("the texts are too long for one array")
        offsets, data = self._allocated(4 * (some.rows + 1)), self._allocated(size + SLACK)
        self._code.expand_texts(
            indices,
            some.rows,
            some.defined,
            some.address,
            _address(self._starts),
            at_lengths,
            offsets.address,
            data.address,
        )
        return _TEXTS[self._stored.wanted.column.type.kind], [offsets, data.slice(0, size)]


class _Decimals(FlatColumn):
    def __init__(self, stored: _Stored) -> None:
        super().__init__(stored)
        self._data = stored.cursor(StreamKind.DATA)
        self._scales = stored.cursor(StreamKind.SECONDARY)

    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        stored = self._stored.wanted.column.type
        scales = self._stored.scratch.integers(some.defined)
        self._integers(self._scales, some.defined, scales, signed=True)
        values = self._allocated(16 * some.rows)
        outcome = self._code.next_decimals(_address(self._data), scales, some.defined, stored.scale, values.address)
        _checked(outcome)
        self._spread(values, 16, some)
        return pa.decimal128(stored.precision, stored.scale), [values]


class _Timestamps(FlatColumn):
    def __init__(self, stored: _Stored) -> None:
        super().__init__(stored)
        self._seconds = stored.cursor(StreamKind.DATA)
        self._nanos = stored.cursor(StreamKind.SECONDARY)

    def _decode(self, some: _Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        scratch, kind = self._stored.scratch, self._stored.wanted.arrow
        seconds, nanos = scratch.integers(some.defined), scratch.integers(some.defined, 1)
        self._integers(self._seconds, some.defined, seconds, signed=True)
        self._integers(self._nanos, some.defined, nanos, signed=False)
        values = self._allocated(8 * some.rows)
        per_second = 10**9 if kind.unit == "ns" else 10**6
        _checked(self._code.timestamps(seconds, nanos, some.defined, per_second, values.address))
        self._spread(values, 8, some)
        return kind, [values]


_OTHERS: Mapping[Kind, type[FlatColumn]] = {
    Kind.BOOLEAN: _Booleans,
    Kind.BYTE: _Bytes,
    Kind.DECIMAL: _Decimals,
}


def _checked(outcome: int) -> int:
    if outcome == DAMAGED:
        raise UnsuitableError("a stream is damaged, or encoded in another way")
    return outcome


def _zeroed_bits(count: int) -> npt.NDArray[np.uint8]:
    return np.zeros((count + 7) // 8 + 8, np.uint8)


def _address(values: npt.NDArray[Any]) -> int:
    return _buffer(values).address


def _buffer(values: npt.NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(values)  # type: ignore[arg-type]  # the stubs do not know that arrays are buffers
