"""Makes one block of bytes of an object file, to be put anywhere in memory and called there.

That is possible because compiled code calls nothing and keeps nothing: it has instructions and constants, which refer
to each other by their distance.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["LinkError", "Linked", "link"]

_RELOCATIONS, _SYMBOLS = 4, 2
"""Types of sections."""

_WRITTEN, _IN_MEMORY = 1, 2
"""Flags of sections."""

_BY_DISTANCE = frozenset({2, 4})
"""The relocations of x86-64 that are distances of 32 bits: R_X86_64_PC32 and R_X86_64_PLT32."""

_UNWINDING = ".eh_frame"
"""Nobody throws anything."""


class LinkError(Exception):
    """The object file needs something that a block of bytes cannot have."""


class Linked(NamedTuple):
    """The bytes, and where functions begin in them."""

    code: bytes
    functions: Mapping[str, int]


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


def link(data: bytes) -> Linked:
    """Put the sections of an ELF object file for x86-64 one behind the other, and fill in their distances."""
    sections = _sections(data)
    places: dict[int, int] = {}
    code = bytearray()
    for number, section in enumerate(sections):
        if not section.flags & _IN_MEMORY or not section.size or _name(data, sections, section) == _UNWINDING:
            continue
        if section.flags & _WRITTEN:
            raise LinkError(f"it has variables: {_name(data, sections, section)}")
        code += bytes(-len(code) % section.alignment)
        places[number] = len(code)
        code += data[section.offset : section.offset + section.size]
    table = next(section for section in sections if section.kind == _SYMBOLS)
    names = sections[table.link]
    symbols = [_Symbol._make(fields) for fields in _records(data, table, "<IBBHQQ")]
    for section in sections:
        if section.kind == _RELOCATIONS and section.info in places:
            _relocate(code, data, section, places, symbols, names)
    functions = {
        _text(data, names.offset + symbol.name): places[symbol.section] + symbol.value
        for symbol in symbols
        if symbol.section in places and symbol.name
    }
    return Linked(bytes(code), functions)


def _relocate(
    code: bytearray,
    data: bytes,
    section: _Section,
    places: Mapping[int, int],
    symbols: list[_Symbol],
    names: _Section,
) -> None:
    for offset, info, addend in _records(data, section, "<QQq"):
        symbol = symbols[info >> 32]
        if symbol.section not in places:
            raise LinkError(f"it calls {_text(data, names.offset + symbol.name)}")
        if info & 0xFFFFFFFF not in _BY_DISTANCE:
            raise LinkError(f"it has a relocation of type {info & 0xFFFFFFFF}")
        place = places[section.info] + offset
        struct.pack_into("<i", code, place, places[symbol.section] + symbol.value + addend - place)


def _sections(data: bytes) -> list[_Section]:
    (offset,) = struct.unpack_from("<Q", data, 40)
    _, count, _ = struct.unpack_from("<HHH", data, 58)
    return [_Section._make(struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * number)) for number in range(count)]


def _records(data: bytes, section: _Section, form: str) -> Iterator[tuple[int, ...]]:
    return struct.iter_unpack(form, data[section.offset : section.offset + section.size])


def _name(data: bytes, sections: list[_Section], section: _Section) -> str:
    (names,) = struct.unpack_from("<H", data, 62)
    return _text(data, sections[names].offset + section.name)


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
