"""Hostile Puffin files of deletion vectors."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from random import Random

from support.mutations import jsons

__all__ = ["mutants"]

_MAGIC, _TRAILER = b"PFA1", struct.Struct("<iI4s")
_FRAME = 8


def mutants(data: bytes, random: Random) -> Iterator[bytes]:
    length, _, _ = _TRAILER.unpack(data[-_TRAILER.size :])
    end = len(data) - _TRAILER.size - length - len(_MAGIC)
    body, footer = data[:end], data[end + len(_MAGIC) : -_TRAILER.size]
    while True:
        place = random.randrange(len(data))
        match random.choice(["bytes", "footer", "footer text", "vector", "vector", "trailer"]):
            case "bytes":
                yield data[:place] + random.randbytes(random.choice([1, 4])) + data[place + random.choice([0, 1, 4]) :]
            case "footer":
                yield body + _footer(json.dumps(jsons.change(json.loads(footer), random)).encode())
            case "footer text":
                yield body + _footer(next(jsons.mutants(footer, random)))
            case "vector":
                yield _with_vector(body, random) + _footer(footer)
            case "trailer":
                claimed = random.choice([0, -1, 2**31 - 1, -(2**31), length + 1, len(data)])
                yield data[: -_TRAILER.size] + _TRAILER.pack(claimed, random.choice([0, 1, 2, 2**31]), _MAGIC)


def _footer(payload: bytes) -> bytes:
    return _MAGIC + payload + _TRAILER.pack(len(payload), 0, _MAGIC)


def _with_vector(body: bytes, random: Random) -> bytes:
    """The first blob with other bytes inside, and the checksum that belongs to them."""
    start = len(_MAGIC)
    (length,) = struct.unpack(">I", body[start : start + 4])
    content = bytearray(body[start + 4 : start + 4 + length])
    # The magic stays.
    place = random.randrange(4, len(content))
    other = random.choice([b"\xff" * 4, bytes(4), random.randbytes(4), b"\xff", b"\x00"])
    content[place : place + len(other)] = other[: len(content) - place]
    checksum = struct.pack(">I", zlib.crc32(content))
    return body[: start + 4] + bytes(content) + checksum + body[start + 4 + length + 4 :]
