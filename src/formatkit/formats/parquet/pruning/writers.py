"""Which bounds of a file cannot be believed, because their order is not known or their writer got them wrong.

What the format itself leaves open: the bounds that it replaced are in signed order, so they say nothing about unsigned
numbers and byte arrays; the new ones are in the order that `column_orders` names, and in an unknown one without it.

What writers got wrong, as other readers know it too: parquet-mr before 1.8.0 stored bounds of byte arrays that it had
overwritten (PARQUET-251; builds of CDH 5.5 for 1.5.0 are mended). parquet-mr before 1.10.0 and parquet-cpp before 1.3.0
compared unsigned values as signed ones, which does not matter where both bounds are the same. parquet-cpp before
Arrow's own versions compared decimals in byte arrays of different lengths as bytes (PARQUET-1655).
"""

from __future__ import annotations

import re
from functools import lru_cache

from formatkit.formats.parquet.elements import Element, Kind, Physical
from formatkit.formats.parquet.footer import Footer
from formatkit.formats.parquet.thrift import ThriftError, decode_struct

__all__ = ["BoundsOrder", "bounds_order", "has_signed_order"]

_SIGNED = frozenset((Physical.BOOLEAN, Physical.INT32, Physical.INT64, Physical.FLOAT, Physical.DOUBLE))
_UNORDERED = frozenset((Kind.FOREIGN, Kind.INTERVAL, Kind.GEOMETRY, Kind.GEOGRAPHY, Kind.NULL))
_CREATED_BY, _COLUMN_ORDERS = 6, 7
_TYPE_DEFINED: dict[int, dict[int, object]] = {1: {}}
_VERSION = re.compile(r"(parquet-mr|parquet-cpp)\s+version\s+(\d+)\.(\d+)\.(\d+)(?:-cdh(\d+)\.(\d+))?")
_REMEMBERED_FOOTERS = 128
_REMEMBERED_BYTES = 32 * 1024


class BoundsOrder:
    """How far the order of a column's bounds can be believed.

    Attributes:
        known: Whether the new bounds are in the order of the column's type.
        if_equal: Whether they count only where both are the same.
    """

    __slots__ = ("if_equal", "known")

    def __init__(self, *, known: bool, if_equal: bool = False) -> None:
        self.known = known
        self.if_equal = if_equal


_UNKNOWN, _KNOWN, _EQUAL = BoundsOrder(known=False), BoundsOrder(known=True), BoundsOrder(known=True, if_equal=True)


def has_signed_order(element: Element) -> bool:
    """Whether values compare as signed numbers, in every version of the format."""
    unsigned = element.annotation is not None and not element.annotation.signed
    return element.physical in _SIGNED and not unsigned and element.kind not in _UNORDERED


def bounds_order(footer: Footer, leaf: int, element: Element) -> BoundsOrder:
    """What to believe of the bounds of a leaf in `min_value`, `max_value` and the column index."""
    if element.physical is Physical.INT96 or element.kind in _UNORDERED:
        return _UNKNOWN
    orders = _orders(footer)
    signed = has_signed_order(element)
    if orders is None:
        return _KNOWN if signed else _UNKNOWN
    if len(orders) != footer.metadata.num_columns or orders[leaf] is False:
        return _UNKNOWN
    return _KNOWN if signed else _order_of_writer(footer.created_by, element)


def _order_of_writer(created_by: str, element: Element) -> BoundsOrder:
    """The same for values that are not simply signed numbers."""
    writer = _VERSION.match(created_by)
    if writer is None:
        return _KNOWN
    application, version = writer[1], tuple(int(number) for number in writer.group(2, 3, 4))
    if application == "parquet-cpp":
        if element.kind is Kind.DECIMAL and element.physical is Physical.BYTE_ARRAY:
            return _UNKNOWN
        return _EQUAL if version < (1, 3, 0) else _KNOWN
    mended = version == (1, 5, 0) and writer[5] is not None and (int(writer[5]), int(writer[6])) >= (5, 5)
    if version < (1, 8, 0) and not mended and element.physical in (Physical.BYTE_ARRAY, Physical.FIXED):
        return _UNKNOWN
    return _EQUAL if version < (1, 10, 0) else _KNOWN


def _orders(footer: Footer) -> tuple[bool, ...] | None:
    """Whether each leaf has the order of its type; None if the file does not say."""
    find = _column_orders if len(footer.data) <= _REMEMBERED_BYTES else _column_orders.__wrapped__
    return find(footer.data, footer.created_by, footer.metadata.num_columns)


# Keyed by content, as footers are.
@lru_cache(maxsize=_REMEMBERED_FOOTERS)
def _column_orders(footer: bytes, created_by: str, leaves: int) -> tuple[bool, ...] | None:
    # Decoding all of a footer takes long. The orders stand behind the name of the writer, at its end.
    writer = created_by.encode()
    place = footer.rfind(writer) if writer else -1
    try:
        if place >= 0:
            end = place + len(writer)
            usual = _usual_orders(leaves)
            if footer[end : end + len(usual)] == usual:
                return (True,) * leaves
            fields, _ = decode_struct(footer, end, after=_CREATED_BY)
        else:
            fields, _ = decode_struct(footer)
    except ThriftError:
        return ()
    orders = fields.get(_COLUMN_ORDERS)
    if orders is None:
        return None
    return tuple(order == _TYPE_DEFINED for order in orders) if isinstance(orders, list) else ()


@lru_cache(maxsize=8)
def _usual_orders(leaves: int) -> bytes:
    """The field as it is stored where every leaf has the order of its type."""
    short = leaves < 15
    head = bytes([leaves << 4 | 0xC]) if short else b"\xfc" + _unsigned(leaves)
    return b"\x19" + head + b"\x1c\0\0" * leaves


def _unsigned(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
