"""The schema at the head of a footer: decoded without the row groups behind it, and changed where it stands."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from formatkit.formats.parquet.elements import Element, Physical
from formatkit.formats.parquet.thrift import (
    Field,
    ThriftError,
    binary,
    decode_struct,
    encode,
    find_field,
    i32,
    list_of,
    nested,
    varint,
)

__all__ = ["Shown", "StoredElements", "annotated_end", "stored_elements"]

_TAIL = struct.Struct("<I4s")

_SCHEMA = 2
_STRUCTS = 0x0C
_LONG_LIST = 15
_PHYSICAL, _LENGTH, _NAME, _CONVERTED_TYPE, _LOGICAL_TYPE = 1, 2, 4, 6, 10
_CONVERTED_FIELDS = frozenset({_CONVERTED_TYPE, 7, 8})
"""With scale and precision."""

_LIST = 3
_INT96_BYTES = 12
# Physical type, its length, repetition, number of children, id: everything but annotations and the name.
_LAYOUT_FIELDS = (1, 2, 3, 5, 9)


class Shown(Enum):
    """What pyarrow is shown in place of an element that it would refuse, or decode to other values."""

    PLAIN = "without its annotations"
    CONVERTED = "without its logical type"
    LIST = "as a list"
    BYTES = "INT96 as twelve bytes"


@dataclass(frozen=True, kw_only=True)
class StoredElements:
    """The elements of a schema and where each of them stands in the footer.

    Attributes:
        footer: The bytes that the offsets refer to.
        elements: Flattened depth first.
        offsets: Where each element begins, and where the last one ends.
        list_start: Where the list that holds them begins.
    """

    footer: bytes
    elements: tuple[Element, ...]
    offsets: tuple[int, ...]
    list_start: int

    def footer_shown(self, elements: Mapping[int, Shown]) -> bytes:
        """A footer in which some elements are others that store the same levels and bytes."""
        return self._with({number: _shown(self.footer, self.offsets[number], how) for number, how in elements.items()})

    def footer_with_annotations(self, annotations: Mapping[int, Field]) -> bytes:
        """A footer in which the elements of some field ids bear other members of the union `LogicalType`."""
        places = {element.field_id: number for number, element in enumerate(self.elements)}
        logical = {places[field_id]: nested(_LOGICAL_TYPE, member) for field_id, member in annotations.items()}
        return self._with({number: _bare(self.footer, self.offsets[number], kind) for number, kind in logical.items()})

    def _with(self, changed: Mapping[int, bytes]) -> bytes:
        """The footer with other bytes for some elements."""
        if not changed:
            return self.footer
        parts = [
            changed.get(number, self.footer[start:end]) for number, (start, end) in enumerate(pairwise(self.offsets))
        ]
        section = list_of(_SCHEMA, parts).value
        return b"".join((self.footer[: self.list_start], section, self.footer[self.offsets[-1] :]))


def stored_elements(footer: bytes) -> StoredElements:
    """Decode the schema. Raises `ThriftError` if there is none."""
    try:
        return _decode(footer)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ThriftError(f"the schema cannot be decoded: {error!r}") from error


def annotated_end(end: bytes, annotations: Mapping[int, Field]) -> bytes:
    """The last bytes of a file, its footer among them, with annotations for the elements of some field ids."""
    length, magic = _TAIL.unpack_from(end, len(end) - _TAIL.size)
    start = len(end) - _TAIL.size - length
    footer = stored_elements(end[start : -_TAIL.size]).footer_with_annotations(annotations)
    return b"".join((end[:start], footer, _TAIL.pack(len(footer), magic)))


def _decode(footer: bytes) -> StoredElements:
    section = find_field(footer, _SCHEMA).value
    start = footer.index(section)
    if section[0] & 0x0F != _STRUCTS:
        raise ThriftError("it is not a list of structs")
    at = varint(section, 1)[1] if section[0] >> 4 == _LONG_LIST else 1
    elements, offsets = [], [start + at]
    while at < len(section):
        fields, at = decode_struct(section, at)
        elements.append(Element.from_thrift(fields))
        offsets.append(start + at)
    return StoredElements(footer=footer, elements=tuple(elements), offsets=tuple(offsets), list_start=start)


def _shown(footer: bytes, start: int, how: Shown) -> bytes:
    match how:
        case Shown.PLAIN:
            return _bare(footer, start)
        case Shown.CONVERTED:
            fields, _ = decode_struct(footer, start)
            return _bare(footer, start, *(i32(number, fields[number]) for number in _CONVERTED_FIELDS & fields.keys()))
        case Shown.LIST:
            return _bare(footer, start, i32(_CONVERTED_TYPE, _LIST))
        case Shown.BYTES:
            return _bare(footer, start, i32(_PHYSICAL, Physical.FIXED), i32(_LENGTH, _INT96_BYTES))


def _bare(footer: bytes, start: int, *others: Field) -> bytes:
    """An element without its annotations, and with some other fields."""
    fields, _ = decode_struct(footer, start)
    stored = {number: i32(number, fields[number]) for number in _LAYOUT_FIELDS if number in fields}
    stored[_NAME] = binary(_NAME, fields[_NAME])
    stored |= {other.number: other for other in others}
    return encode(*(stored[number] for number in sorted(stored)))
