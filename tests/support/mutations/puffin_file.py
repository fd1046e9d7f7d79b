"""Puffin files taken apart: the footer's JSON, and deletion vectors down to their roaring bitmaps."""

from __future__ import annotations

import struct
import zlib
from random import Random

from support.mutations import json as json_tree
from support.mutations.tree import Edit, Node, edit

__all__ = ["edit_puffin"]

_MAGIC = b"PFA1"


def edit_puffin(data: bytes, random: Random) -> tuple[str, Edit, bytes]:
    """Change one place: the structure it is in, the edit and the changed file. Checksums of blobs are made anew."""
    length, _, _ = struct.unpack("<iI4s", data[-12:])
    start = len(data) - 12 - length
    document = json_tree.parse(data[start:-12])
    blobs, payload, flags = data[4 : start - 4], data[start:-12], 0
    structure = random.choice(["footer", "footer", "blob", "blob", "trailer"])
    if structure == "footer":
        done = edit(document, random)
        payload = json_tree.encode(document)
    elif structure == "trailer":
        node = Node("int", random.choice([length, 0]))
        done = edit(node, random)
        claim = int(node.value) if isinstance(node.value, int) else 0
        flags = random.choice([0, 0, 1, 2])
        trailer = struct.pack("<II4s", claim & 0xFFFFFFFF, flags, random.choice([_MAGIC, _MAGIC, b"PFA2"]))
        return structure, done, data[:-12] + trailer
    else:
        blob = random.choice(document["blobs"].value)
        at, size = blob["offset"].value - 4, blob["length"].value
        changed, done = _edit_vector(blobs[at : at + size], random)
        blobs = blobs[:at] + changed + blobs[at + size :]
    return (
        structure,
        done,
        _MAGIC + blobs + _MAGIC + payload + struct.pack("<iI4s", len(payload), flags, _MAGIC),
    )


def _edit_vector(blob: bytes, random: Random) -> tuple[bytes, Edit]:
    """Overwrite a number of the bitmap, keeping its length: offsets of later blobs stay right."""
    content = bytearray(blob[4:-4])
    width = random.choice([1, 2, 4, 8])
    at = random.randrange(max(len(content) - width, 1))
    old = int.from_bytes(content[at : at + width], "little")
    edges = [
        0,
        1,
        old + 1,
        old - 1,
        old ^ (1 << random.randrange(8 * width)),
        (1 << 8 * width) - 1,
        1 << (8 * width - 1),
    ]
    new = random.choice(edges) & ((1 << 8 * width) - 1)
    content[at : at + width] = new.to_bytes(width, "little")
    claim = random.choice([len(content)] * 8 + [0, 1, (1 << 32) - 1])
    crc = zlib.crc32(content) if random.random() < 0.9 else random.randrange(1 << 32)
    edited = struct.pack(">I", claim) + bytes(content) + struct.pack(">I", crc)
    return edited, Edit(f"vector[{at}:{at + width}]", f"{old} became {new}, length {claim}, checksum {crc:08x}")
