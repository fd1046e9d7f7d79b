"""Arrow IPC files and streams taken apart: the messages and the footer, whose numbers are overwritten in place."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from support.mutations.flatbuffers import Slot, overwrite, slots
from support.mutations.tree import Edit

__all__ = ["edit_arrow"]

_MAGIC = b"ARROW1"
_CONTINUATION = b"\xff\xff\xff\xff"


def edit_arrow(data: bytes, random: Random) -> tuple[str, Edit, bytes]:
    """Overwrite one number: the structure it is in, the edit and the changed file."""
    found = list(_slots(data))
    # Schemas have most of the numbers; batches are where rows are.
    structure = random.choice(sorted({name for name, _ in found}))
    _, slot = random.choice([each for each in found if each[0] == structure])
    changed = bytearray(data)
    done = overwrite(changed, slot, random)
    return structure, done, bytes(changed)


def _slots(data: bytes) -> Iterator[tuple[str, Slot]]:
    is_file = data.startswith(_MAGIC)
    at, number = (8 if is_file else 0), 0
    while data[at : at + 4] == _CONTINUATION:
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        yield "message", Slot(f"messages[{number}]@length", at + 4, "i")
        if not length:
            break
        body = 0
        structure = "message"
        for slot in slots(data, "Message", at + 8):
            if slot.path == ".bodyLength":
                body = int.from_bytes(data[slot.at : slot.at + 8], "little")
            if slot.path == ".header_type":
                structure = {1: "schema", 2: "dictionary_batch"}.get(data[slot.at], "record_batch")
            yield structure, Slot(f"messages[{number}]{slot.path}", slot.at, slot.letter)
        at += 8 + length + body
        number += 1
    if is_file:
        end = len(data) - 10
        yield "footer", Slot("footer@length", end, "i")
        start = end - int.from_bytes(data[end : end + 4], "little")
        for slot in slots(data, "Footer", start):
            yield "footer", Slot(f"footer{slot.path}", slot.at, slot.letter)
