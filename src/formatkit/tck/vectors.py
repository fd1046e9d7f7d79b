"""The bytes of deletion vectors and of the Puffin files around them, as Iceberg's spec lays them out.

Written by the kit itself, so that what reads them has nothing in common with what wrote them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

__all__ = ["Blob", "puffin_file", "vector_bytes"]

PUFFIN = b"PFA1"
_VECTOR = bytes.fromhex("d1d33964")
_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_MOST_IN_ARRAY = 4096
_POS = 2147483645


@dataclass(frozen=True)
class Blob:
    """A deletion vector inside a Puffin file."""

    data: bytes
    referenced: str
    cardinality: int


def puffin_file(blobs: Sequence[Blob]) -> tuple[bytes, list[int]]:
    """A Puffin file, and the offset of each of its blobs."""
    body, offsets, described = PUFFIN, [], []
    for blob in blobs:
        offsets.append(len(body))
        described.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POS],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(body),
                "length": len(blob.data),
                "properties": {"referenced-data-file": blob.referenced, "cardinality": str(blob.cardinality)},
            }
        )
        body += blob.data
    payload = json.dumps({"blobs": described}).encode()
    footer = PUFFIN + payload + struct.pack("<i", len(payload)) + bytes(4) + PUFFIN
    return body + footer, offsets


def vector_bytes(positions: Sequence[int], *, runs: bool = False) -> bytes:
    """A deletion vector, in run containers if that is asked for, else in arrays and bitmaps."""
    halves = [(high, list(own)) for high, own in groupby(sorted(set(positions)), key=lambda position: position >> 32)]
    bitmaps = b"".join(
        struct.pack("<I", high) + _roaring([each & 0xFFFFFFFF for each in own], runs=runs) for high, own in halves
    )
    content = _VECTOR + struct.pack("<q", len(halves)) + bitmaps
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def _roaring(values: Sequence[int], *, runs: bool) -> bytes:
    """A roaring bitmap of 32 bits, in its portable form."""
    containers = [(key, [each & 0xFFFF for each in own]) for key, own in groupby(values, key=lambda each: each >> 16)]
    count = len(containers)
    if runs:
        flags = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
        header = struct.pack("<I", _COOKIE_WITH_RUNS | (count - 1) << 16) + flags
    else:
        header = struct.pack("<II", _COOKIE, count)
    header += b"".join(struct.pack("<HH", key, len(own) - 1) for key, own in containers)
    bodies = [_runs(own) if runs else _plain(own) for _, own in containers]
    # Few containers of runs are found without offsets.
    if not runs or count >= 4:
        header += b"".join(_offsets(len(header) + 4 * count, bodies))
    return header + b"".join(bodies)


def _offsets(start: int, bodies: Sequence[bytes]) -> Iterator[bytes]:
    for body in bodies:
        yield struct.pack("<I", start)
        start += len(body)


def _plain(values: Sequence[int]) -> bytes:
    if len(values) <= _MOST_IN_ARRAY:
        return struct.pack(f"<{len(values)}H", *values)
    return sum(1 << value for value in values).to_bytes(8192, "little")


def _runs(values: Sequence[int]) -> bytes:
    found: list[list[int]] = []
    for value in values:
        if found and found[-1][0] + found[-1][1] + 1 == value:
            found[-1][1] += 1
        else:
            found.append([value, 0])
    return struct.pack("<H", len(found)) + b"".join(struct.pack("<HH", *run) for run in found)
