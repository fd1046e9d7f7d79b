"""Blocks of LZ4, which say neither where they end nor how long their content is."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["LARGEST_IN_FRAMES", "lz4_frame", "lz4_size"]

LARGEST_IN_FRAMES = 4 << 20
"""Longer blocks have no place in a frame."""

_MAGIC = b"\x04\x22\x4d\x18"
_INDEPENDENT_BLOCKS = 0x60
# How long blocks may be, the number of that in the header, and the header's checksum.
_SIZES = ((64 << 10, 0x40, 0x82), (256 << 10, 0x50, 0xFB), (1 << 20, 0x60, 0x51), (LARGEST_IN_FRAMES, 0x70, 0x73))
_STORED_AS_IS = 1 << 31
_END = bytes(4)


def lz4_frame(blocks: Iterable[tuple[memoryview, bool]], largest: int) -> bytes:
    """A frame of blocks, each with whether it is stored as it is; their contents have `largest` bytes at most."""
    number, checksum = next(rest for size, *rest in _SIZES if largest <= size)
    parts: list[bytes | memoryview] = [_MAGIC, bytes((_INDEPENDENT_BLOCKS, number, checksum))]
    for stored, original in blocks:
        parts += [(len(stored) | _STORED_AS_IS * original).to_bytes(4, "little"), stored]
    return b"".join([*parts, _END])


def lz4_size(block: memoryview) -> int:
    """What the sequences of a block add up to."""
    size = position = 0
    while True:
        token = block[position]
        literals, position = _length(block, position + 1, token >> 4)
        position += literals
        size += literals
        if position >= len(block):
            return size
        copied, position = _length(block, position + 2, token & 15)
        size += copied + 4


def _length(block: memoryview, position: int, length: int) -> tuple[int, int]:
    if length == 15:
        while (more := block[position]) == 255:
            length += 255
            position += 1
        length += more
        position += 1
    return length, position
