"""Decodes flat columns of a stripe with compiled code, some rows at a time.

pyarrow's decoder makes batches of ORC's own kind first and builds Arrow arrays of them value by value, and it trusts
what it reads. Here streams are decoded into the final buffers, and every length is compared with what is there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from formatkit.batches.compiled.loading import Payback
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.protobuf import integers
from formatkit.formats.orc.read.writer_zone import ORC_EPOCH, WriterZone
from formatkit.formats.orc.stored_columns import (
    DICTIONARY,
    DICTIONARY_2,
    DIRECT,
    DIRECT_2,
    KERNELS,
    NOTHING,
    FlatColumn,
    Rows,
    Scratch,
    Stored,
    UnsuitableError,
    address,
    buffer,
    checked,
    zeroed_bits,
)
from formatkit.formats.orc.stripe_streams import Contents
from formatkit.formats.orc.stripes import StreamKind, StripeFooter
from formatkit.formats.orc.tail import Kind, Tail
from formatkit.formats.orc.text_columns import TEXTS, DictionaryTexts, Texts

__all__ = ["PAYBACK", "flat_column", "has_unusual_root", "is_flat"]

PAYBACK = Payback(KERNELS, 128 * 1024 * 1024)
"""When compiled code is used."""

_LIMITS = {
    Kind.SHORT: (-(1 << 15), (1 << 15) - 1),
    Kind.INT: (-(1 << 31), (1 << 31) - 1),
    Kind.DATE: (-(1 << 31), (1 << 31) - 1),
}
_FLOATS = {Kind.FLOAT: (4, pa.float32()), Kind.DOUBLE: (8, pa.float64())}
_TIMESTAMPS = (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)
_FLAT = frozenset({Kind.BOOLEAN, Kind.BYTE, Kind.LONG, Kind.DECIMAL, *_LIMITS, *_FLOATS, *TEXTS, *_TIMESTAMPS})
_DIRECT_ENCODINGS = (DIRECT, DIRECT_2)
_ENCODINGS = {
    **dict.fromkeys((Kind.BOOLEAN, Kind.BYTE, *_FLOATS), (DIRECT,)),
    **dict.fromkeys(TEXTS, (DIRECT, DICTIONARY, DIRECT_2, DICTIONARY_2)),
}


def is_flat(wanted: Wanted) -> bool:
    """Whether a column is of a type that compiled code decodes."""
    return wanted.column.type.kind in _FLAT


def has_unusual_root(footer: StripeFooter) -> bool:
    """Whether whole rows can be null, which no writer makes of them, or are encoded in an unknown way."""
    streams = any(stream.column == 0 and stream.kind < StreamKind.ROW_INDEX for stream in footer.streams)
    return streams or integers(footer.encodings[0]).get(1, DIRECT) != DIRECT


def flat_column(
    wanted: Wanted,
    contents: Contents,
    footer: StripeFooter,
    tail: Tail,
    zone: WriterZone | None,
    scratch: Scratch,
    pool: pa.MemoryPool | None,
) -> FlatColumn:
    """Decode a column of a stripe whose streams were read. Raises `UnsuitableError` if that cannot be done here."""
    type_id, kind = wanted.column.type_id, wanted.column.type.kind
    fields = integers(footer.encodings[type_id])
    streams = {stream: content for (column, stream), content in contents.items() if column == type_id}
    stored = Stored(wanted, streams, fields.get(1, 0), fields.get(2, 0), scratch, pool)
    if stored.encoding not in _ENCODINGS.get(kind, _DIRECT_ENCODINGS):
        raise UnsuitableError("it is encoded in another way")
    if kind in TEXTS:
        return Texts(stored) if stored.encoding in _DIRECT_ENCODINGS else DictionaryTexts(stored)
    if kind in _FLOATS:
        return _Floats(stored)
    if kind in _TIMESTAMPS:
        return _Timestamps(stored, zone if kind is Kind.TIMESTAMP else None)
    if tail.postscript.is_decimal64(wanted.column.type):
        return _Integers(stored._replace(encoding=DIRECT_2))
    return _OTHERS.get(kind, _Integers)(stored)


class _Integers(FlatColumn):
    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        self._data = stored.cursor(StreamKind.DATA)

    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        kind = self._stored.wanted.column.type.kind
        if (limits := _LIMITS.get(kind)) is None:
            values = self._allocated(8 * some.rows)
            self._integers(self._data, some.defined, values.address, signed=True)
            self._spread(values, 8, some)
            return pa.int64(), [values]
        wide = self._stored.scratch.integers(some.defined)
        self._integers(self._data, some.defined, wide, signed=True)
        values = self._allocated(4 * some.rows)
        checked(self._code.narrowed(wide, some.defined, *limits, values.address))
        self._spread(values, 4, some)
        return pa.date32() if kind is Kind.DATE else pa.int32(), [values]


class _Bytes(FlatColumn):
    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        self._data = stored.cursor(StreamKind.DATA)

    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        values = self._allocated(4 * some.rows)
        checked(self._code.next_bytes(address(self._data), some.defined, values.address))
        self._spread(values, 4, some)
        return pa.int32(), [values]


class _Booleans(FlatColumn):
    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        self._data = stored.cursor(StreamKind.DATA)

    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        bits = zeroed_bits(some.rows)
        checked(self._code.next_bits(address(self._data), some.defined, address(bits), 0))
        if some.nulls and some.validity is not None:
            spread = np.zeros(some.rows, np.uint8)
            valid = np.unpackbits(some.validity, count=some.rows, bitorder="little").view(np.bool_)
            spread[valid] = np.unpackbits(bits, count=some.defined, bitorder="little")
            bits = np.packbits(spread, bitorder="little")
        return pa.bool_(), [buffer(bits)]


class _Floats(FlatColumn):
    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        self._data = stored.streams.get(StreamKind.DATA, NOTHING)
        self._done = 0

    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
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


class _Decimals(FlatColumn):
    def __init__(self, stored: Stored) -> None:
        super().__init__(stored)
        self._data = stored.cursor(StreamKind.DATA)
        self._scales = stored.cursor(StreamKind.SECONDARY)

    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        stored = self._stored.wanted.column.type
        scales = self._stored.scratch.integers(some.defined)
        self._integers(self._scales, some.defined, scales, signed=True)
        values = self._allocated(16 * some.rows)
        outcome = self._code.next_decimals(address(self._data), scales, some.defined, stored.scale, values.address)
        checked(outcome)
        self._spread(values, 16, some)
        return pa.decimal128(stored.precision, stored.scale), [values]


class _Timestamps(FlatColumn):
    def __init__(self, stored: Stored, zone: WriterZone | None) -> None:
        super().__init__(stored)
        self._zone = zone
        self._epoch = ORC_EPOCH if zone is None else zone.epoch
        self._seconds = stored.cursor(StreamKind.DATA)
        self._nanos = stored.cursor(StreamKind.SECONDARY)

    def _decode(self, some: Rows) -> tuple[pa.DataType, list[pa.Buffer]]:
        scratch, kind = self._stored.scratch, self._stored.wanted.arrow
        seconds, nanos = scratch.integers(some.defined), scratch.integers(some.defined, 1)
        self._integers(self._seconds, some.defined, seconds, signed=True)
        self._integers(self._nanos, some.defined, nanos, signed=False)
        values = self._allocated(8 * some.rows)
        per_second = 10**9 if kind.unit == "ns" else 10**6
        checked(self._code.timestamps(seconds, nanos, some.defined, self._epoch, per_second, values.address))
        if self._zone is not None:
            instants = np.frombuffer(memoryview(values), np.int64)[: some.defined]
            try:
                instants[:] = self._zone.wall_times(instants, per_second)
            except OverflowError as error:
                raise UnsuitableError(str(error)) from error
        self._spread(values, 8, some)
        return kind, [values]


_OTHERS: Mapping[Kind, type[FlatColumn]] = {
    Kind.BOOLEAN: _Booleans,
    Kind.BYTE: _Bytes,
    Kind.DECIMAL: _Decimals,
}
