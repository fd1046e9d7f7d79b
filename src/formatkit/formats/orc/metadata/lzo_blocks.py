"""Blocks of LZO1X: literals, and copies of what came before, each followed by up to three more literals.

The first byte of an instruction says which it is. Instructions below 16 mean a run of literals after a copy without
literals, and a copy after literals.
"""

from __future__ import annotations

__all__ = ["LzoError", "lzo_decompressed"]

_RUN = 4
"""How many literals came last, where they were a run: four or more."""

_END_DISTANCE = 1 << 14
_FIRST_LITERALS = 17


class LzoError(ValueError):
    """The bytes are no block of LZO, or hold more than they may."""


def lzo_decompressed(block: memoryview, limit: int) -> bytes:
    """The content of a block, of which there are at most `limit` bytes."""
    try:
        return bytes(_Block(block, limit).content())
    except IndexError:
        raise LzoError("it ends within an instruction") from None


class _Block:
    def __init__(self, block: memoryview, limit: int) -> None:
        self._block = block
        self._limit = limit
        self._at = 0
        self._content = bytearray()

    def content(self) -> bytearray:
        literals = 0
        if self._block[0] > _FIRST_LITERALS:
            literals = self._literals(self._byte() - _FIRST_LITERALS)
        while self._at < len(self._block):
            head = self._byte()
            if head < 16 and literals == 0:
                literals = self._literals(3 + self._length(head, 15))
                continue
            if head < 16:
                trailing = head & 3
                length, nearest = (3, 2049) if literals == _RUN else (2, 1)
                distance = nearest + (head >> 2) + (self._byte() << 2)
            elif head < 64:
                length = 2 + (self._length(head & 7, 7) if head < 32 else self._length(head & 31, 31))
                word = self._byte() | self._byte() << 8
                trailing = word & 3
                distance = (word >> 2) + (_END_DISTANCE + ((head & 8) << 11) if head < 32 else 1)
                if distance == _END_DISTANCE and head < 32:
                    return self._content
            else:
                trailing = head & 3
                length = 3 + (head >> 5 & 1) if head < 128 else 5 + (head >> 5 & 3)
                distance = 1 + (head >> 2 & 7) + (self._byte() << 3)
            self._copy(length, distance)
            literals = self._literals(trailing)
        return self._content

    def _byte(self) -> int:
        byte = self._block[self._at]
        self._at += 1
        return byte

    def _length(self, stored: int, most: int) -> int:
        """A length that goes on in other bytes if it is stored as zero."""
        if stored:
            return stored
        while (byte := self._byte()) == 0:
            most += 255
        return most + byte

    def _literals(self, count: int) -> int:
        end = self._at + count
        if end > len(self._block):
            raise IndexError
        self._check(count)
        self._content += self._block[self._at : end]
        self._at = end
        return min(count, _RUN)

    def _copy(self, length: int, distance: int) -> None:
        start = len(self._content) - distance
        if start < 0:
            raise LzoError("it copies what is before its beginning")
        self._check(length)
        pattern = self._content[start : start + length]
        self._content += (pattern * (-(-length // len(pattern))))[:length]

    def _check(self, more: int) -> None:
        if len(self._content) + more > self._limit:
            raise LzoError(f"it holds more than {self._limit} bytes")
