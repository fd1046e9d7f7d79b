"""Flatbuffers: where their numbers, offsets, counts and slots lie, so that each can be overwritten in place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from support.mutations.tree import Edit

__all__ = ["Slot", "overwrite", "slots"]

# Fields by number: a letter of `struct`, `table`, `[table]`, `s` for texts, `{letters}` for vectors of structs.
_TABLES: dict[str, dict[int, tuple[str, str]]] = {
    "Message": {0: ("version", "h"), 1: ("header_type", "B"), 2: ("header", "Header"), 3: ("bodyLength", "q"),
                4: ("custom_metadata", "[KeyValue]")},
    "Schema": {0: ("endianness", "h"), 1: ("fields", "[Field]"), 2: ("custom_metadata", "[KeyValue]")},
    "Field": {0: ("name", "s"), 1: ("nullable", "B"), 2: ("type_type", "B"), 3: ("type", "Any"),
              4: ("dictionary", "DictionaryEncoding"), 5: ("children", "[Field]"),
              6: ("custom_metadata", "[KeyValue]")},
    "DictionaryEncoding": {0: ("id", "q"), 1: ("indexType", "Any"), 2: ("isOrdered", "B")},
    "KeyValue": {0: ("key", "s"), 1: ("value", "s")},
    "RecordBatch": {0: ("length", "q"), 1: ("nodes", "{qq}"), 2: ("buffers", "{qq}"), 3: ("compression", "Any"),
                    4: ("variadicBufferCounts", "{q}")},
    "DictionaryBatch": {0: ("id", "q"), 1: ("data", "RecordBatch"), 2: ("isDelta", "B")},
    "Footer": {0: ("version", "h"), 1: ("schema", "Schema"), 2: ("dictionaries", "{qixxxxq}"),
               3: ("recordBatches", "{qixxxxq}")},
    "Any": {},
}  # fmt: skip
_HEADERS = {1: "Schema", 2: "DictionaryBatch", 3: "RecordBatch"}


@dataclass(frozen=True)
class Slot:
    """A number in the buffer; `letter` is its form in `struct`."""

    path: str
    at: int
    letter: str


def slots(data: bytes, table: str, start: int = 0) -> Iterator[Slot]:
    """All numbers of the buffer whose root is the table."""
    yield Slot("@root", start, "I")
    yield from _table(data, start + _at(data, start, "I"), table, "")


def overwrite(data: bytearray, slot: Slot, random: Random) -> Edit:
    """Put another number into a slot."""
    old = _at(data, slot.at, slot.letter)
    bits = 8 * struct.calcsize(slot.letter)
    edges = [0, 1, -1, 4, 8, 127, 255, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63)]
    near = [old + step for step in (-8, -4, -2, -1, 1, 2, 4, 8)]
    new = random.choice([random.choice(edges), random.choice(near), old ^ (1 << random.randrange(bits)), old * 2])
    new &= (1 << bits) - 1
    data[slot.at : slot.at + bits // 8] = new.to_bytes(bits // 8, "little")
    return Edit(slot.path, f"{old} became {_at(data, slot.at, slot.letter)}")


def _at(data: bytes | bytearray, at: int, letter: str) -> int:
    return int(struct.unpack_from(f"<{letter}", data, at)[0])


def _table(data: bytes, at: int, table: str, path: str) -> Iterator[Slot]:
    yield Slot(f"{path}@vtable", at, "i")
    vtable = at - _at(data, at, "i")
    size = _at(data, vtable, "H")
    yield Slot(f"{path}@vtable_size", vtable, "H")
    union = "Any"
    for number in range((size - 4) // 2):
        slot = vtable + 4 + 2 * number
        yield Slot(f"{path}@slot[{number}]", slot, "H")
        distance = _at(data, slot, "H")
        if not distance or number not in _TABLES[table]:
            continue
        name, kind = _TABLES[table][number]
        place = at + distance
        if name == "header_type":
            union = _HEADERS.get(data[place], "Any")
        yield from _field(data, place, union if kind == "Header" else kind, f"{path}.{name}")


def _field(data: bytes, at: int, kind: str, path: str) -> Iterator[Slot]:
    if len(kind) == 1 and kind != "s":
        yield Slot(path, at, kind)
        return
    yield Slot(f"{path}@offset", at, "I")
    target = at + _at(data, at, "I")
    if kind in _TABLES:
        yield from _table(data, target, kind, path)
        return
    count = _at(data, target, "I")
    yield Slot(f"{path}@count", target, "I")
    if kind.startswith("["):
        for number in range(count):
            yield from _field(data, target + 4 + 4 * number, kind[1:-1], f"{path}[{number}]")
    elif kind.startswith("{"):
        letters = kind[1:-1]
        width = struct.calcsize(f"<{letters}")
        for number in range(count):
            place = target + 4 + width * number
            for position, letter in enumerate(letters):
                if letter != "x":
                    before = struct.calcsize(f"<{letters[:position]}")
                    yield Slot(f"{path}[{number}].{position}", place + before, letter)
