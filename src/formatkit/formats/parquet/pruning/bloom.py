"""Bloom filters of Parquet: split blocks of 256 bits, addressed by the XXH64 of a value's plain encoding."""

from __future__ import annotations

import struct
from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np
from pyiceberg.expressions import And, BooleanExpression, BoundEqualTo, BoundIn, Or
from pyiceberg.utils.decimal import decimal_to_unscaled

from formatkit.contract.pruning import Hint, count_dropped
from formatkit.contract.storage import ByteSource
from formatkit.formats.parquet.elements import Annotation, Element, Kind, Physical, Unit
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.schema import Column
from formatkit.formats.parquet.thrift import ThriftError, decode_struct

__all__ = ["BloomFilters", "xxh64"]

_BLOOM_FILTER_OFFSET, _BLOOM_FILTER_LENGTH = 14, 15
_BLOCK_BYTES = 32
_BLOCK = struct.Struct("<8I")
_BLOCK_WORDS = 8
_SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_HEADER_BYTES = 64
_MAX_LITERALS = 1000


class BloomFilters:
    """The filters of one file, as far as a predicate asks for them.

    Args:
        source: The file.
        footer: Its footer.
        columns: The columns by the ids that the predicate uses.
        predicate: A bound predicate without negations.
        counters: Where to count what is dropped.
    """

    def __init__(
        self,
        source: ByteSource,
        footer: Footer,
        columns: Mapping[int, Column],
        predicate: BooleanExpression,
        counters: MutableMapping[str, int],
    ) -> None:
        self._source = source
        self._footer = footer
        self._columns = columns
        self._predicate = predicate
        self._counters = counters
        self._hashes: dict[int, tuple[int, ...] | None] = {}

    def exclude(self, row_group: RowGroup) -> bool:
        """Whether the filters prove that no row of the row group matches."""
        return self._excluded(self._predicate, row_group)

    def _excluded(self, predicate: BooleanExpression, row_group: RowGroup) -> bool:
        match predicate:
            case And(left=left, right=right):
                return self._excluded(left, row_group) or self._excluded(right, row_group)
            case Or(left=left, right=right):
                return self._excluded(left, row_group) and self._excluded(right, row_group)
            case BoundEqualTo() | BoundIn():
                return self._holds_none(predicate, row_group)
        return False

    def _holds_none(self, predicate: BoundEqualTo | BoundIn, row_group: RowGroup) -> bool:
        column = self._columns.get(predicate.term.ref().field.field_id)
        if column is None or column.element is None or column.repeated:
            return False
        record = self._footer.chunk_record(row_group, column.leaves.start)
        offset = None if record is None else record.meta_data.get(_BLOOM_FILTER_OFFSET)
        if record is None or offset is None:
            return False
        hashes = self._literal_hashes(predicate, column.element)
        if hashes is None:
            return False
        bitset = self._bitset(offset, record.meta_data.get(_BLOOM_FILTER_LENGTH))
        if bitset is None:
            count_dropped(self._counters, Hint.BLOOM_FILTERS)
            return False
        if any(_contains(bitset, value) for value in hashes):
            return False
        if not _is_possible(bitset):
            count_dropped(self._counters, Hint.BLOOM_FILTERS)
            return False
        return True

    def _literal_hashes(self, predicate: BoundEqualTo | BoundIn, element: Element) -> tuple[int, ...] | None:
        key = id(predicate)
        if key not in self._hashes:
            literals = (
                [predicate.literal.value]
                if isinstance(predicate, BoundEqualTo)
                else [literal.value for literal in predicate.literals]
            )
            encoded = [_plain(element, literal) for literal in literals] if len(literals) <= _MAX_LITERALS else [None]
            self._hashes[key] = (
                None if None in encoded else tuple(xxh64(data) for forms in encoded if forms for data in forms)
            )
        return self._hashes[key]

    def _bitset(self, offset: object, length: object) -> memoryview | None:
        """The bits, or None if the filter is damaged or of a kind that is not known here: then it excludes nothing."""
        if not isinstance(offset, int):
            return None
        available = self._source.size() - offset
        wanted = min(_HEADER_BYTES, available) if length is None else length
        if offset < 0 or not isinstance(wanted, int) or not 0 < wanted <= available:
            return None
        data = self._source.read(offset, wanted)
        try:
            header, start = decode_struct(data[:_HEADER_BYTES])
        except ThriftError:
            return None
        size = _bitset_size(header)
        if size is None or start + size > available or length not in (None, start + size):
            return None
        return data[start : start + size] if len(data) >= start + size else self._source.read(offset + start, size)


def _bitset_size(header: Mapping[int, Any]) -> int | None:
    """How many bytes the bits take, if the header is one of a filter as this module reads it."""
    # Members 1 of the unions: split-block algorithm, XXH64, uncompressed.
    if any(header.get(union) != {1: {}} for union in (2, 3, 4)):
        return None
    size = header.get(1)
    return size if isinstance(size, int) and size > 0 and size % _BLOCK_BYTES == 0 else None


def _is_possible(bitset: memoryview) -> bool:
    """Whether values can have left these bits: each of them sets one in every word of its block."""
    words = np.frombuffer(bitset, "<u4").reshape(-1, _BLOCK_WORDS) != 0
    filled = words.any(axis=1)
    return bool(filled.any() and (words.all(axis=1) == filled).all())


def _contains(bitset: memoryview, value: int) -> bool:
    block = ((value >> 32) * (len(bitset) // _BLOCK_BYTES)) >> 32
    low = value & 0xFFFFFFFF
    words = _BLOCK.unpack_from(bitset, block * _BLOCK_BYTES)
    return all(word >> ((low * salt & 0xFFFFFFFF) >> 27) & 1 for word, salt in zip(words, _SALT, strict=True))


def _plain(element: Element, value: Any) -> tuple[bytes, ...] | None:
    """The plain encodings that equal a literal, or None if they cannot be told.

    An empty tuple means that no stored value can equal it.
    """
    match element.annotation:
        case Annotation(kind=Kind.DECIMAL):
            value = decimal_to_unscaled(value)
        case Annotation(kind=Kind.TIME | Kind.TIMESTAMP, unit=Unit.MILLIS):
            value, rest = divmod(value, 1000)
            if rest:
                return ()
        case Annotation(kind=Kind.STRING | Kind.ENUM | Kind.JSON):
            value = value.encode()
    match element.physical:
        case Physical.INT32:
            return ((value & 0xFFFFFFFF).to_bytes(4, "little"),)
        case Physical.INT64:
            # Unsigned numbers are compared as decimals.
            return ((int(value) & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little"),)
        case Physical.FLOAT | Physical.DOUBLE:
            code = "<f" if element.physical is Physical.FLOAT else "<d"
            zeros = (0.0, -0.0)
            return tuple(struct.pack(code, number) for number in (zeros if value == 0 else (value,)))
        case Physical.FIXED if element.kind is Kind.DECIMAL:
            return ((value & (1 << 8 * element.length) - 1).to_bytes(element.length, "big"),)
        case Physical.FIXED | Physical.BYTE_ARRAY if isinstance(value, bytes):
            return (value,)
    return None


_M = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64(data: bytes) -> int:
    """The 64-bit xxHash with seed 0. Literals are few and short, so that Python is fast enough."""
    size, at = len(data), 0
    if size >= 32:
        lanes = [_P1 + _P2 & _M, _P2, 0, -_P1 & _M]
        while at + 32 <= size:
            words = struct.unpack_from("<4Q", data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        a, b, c, d = lanes
        result = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18) & _M
        for lane in lanes:
            result = (result ^ _round(0, lane)) * _P1 + _P4 & _M
    else:
        result = _P5
    result = result + size & _M
    while at + 8 <= size:
        (word,) = struct.unpack_from("<Q", data, at)
        result = _rotate(result ^ _round(0, word), 27) * _P1 + _P4 & _M
        at += 8
    if at + 4 <= size:
        (half,) = struct.unpack_from("<I", data, at)
        result = _rotate(result ^ half * _P1 & _M, 23) * _P2 + _P3 & _M
        at += 4
    for byte in data[at:]:
        result = _rotate(result ^ byte * _P5 & _M, 11) * _P1 & _M
    result = (result ^ result >> 33) * _P2 & _M
    result = (result ^ result >> 29) * _P3 & _M
    return result ^ result >> 32


def _round(lane: int, word: int) -> int:
    return _rotate(lane + word * _P2 & _M, 31) * _P1 & _M


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _M
