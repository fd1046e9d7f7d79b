"""The 32-bit Murmur3 hash of whole columns, which bucket partitions go by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BinaryType

__all__ = ["hash_bytes", "hash_longs"]

Hashes = NDArray[np.uint32]
Longs = NDArray[np.int64]

_BLOCK = 4
_LONGEST = 1024
"""Longer values are hashed one by one: a step over a column is worth it while many values take part in it."""

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def hash_longs(values: Longs) -> Hashes:
    """The hashes of the values as 8 bytes each, the lowest byte first."""
    halves = values.astype("<i8", copy=False).view(np.uint64)
    hashes = _mixed(np.zeros(len(values), np.uint32), halves.astype(np.uint32))
    hashes = _mixed(hashes, (halves >> np.uint64(32)).astype(np.uint32))
    return _finished(hashes, np.uint32(8))


def hash_bytes(data: NDArray[np.uint8], starts: Longs, lengths: Longs) -> Hashes:
    """The hashes of values that lie in one buffer; all work is done for the whole column at a time.

    Args:
        data: The bytes of all values.
        starts: Where each value begins.
        lengths: How many bytes each value has.
    """
    hashes = np.zeros(len(starts), np.uint32)
    long = lengths > _LONGEST
    _hash_one_by_one(data, starts, lengths, np.flatnonzero(long), hashes)
    # With the long ones first, those that have a further block are always the first so many.
    order = np.argsort(np.where(long, 0, -lengths), kind="stable")
    starts, lengths = starts[order], np.where(long, 0, lengths)[order]
    if len(data) < _BLOCK:
        data = np.pad(data, (0, _BLOCK))
    blocks = lengths // _BLOCK
    mixed = np.zeros(len(starts), np.uint32)
    words = np.ndarray((len(data) - _BLOCK + 1,), "<u4", np.ascontiguousarray(data), strides=(1,))
    active = len(starts)
    for block in range(int(blocks[0]) if len(blocks) else 0):
        active = int(np.searchsorted(-blocks[:active], -block, side="left"))
        mixed[:active] = _mixed(mixed[:active], words[starts[:active] + block * _BLOCK])
    mixed ^= _scrambled(_tails(data, starts + blocks * _BLOCK, lengths % _BLOCK))
    finished = _finished(mixed, lengths.astype(np.uint32))
    ordinary = ~long[order]
    hashes[order[ordinary]] = finished[ordinary]
    return hashes


def _hash_one_by_one(data: NDArray[np.uint8], starts: Longs, lengths: Longs, rows: Longs, hashes: Hashes) -> None:
    one = BucketTransform(1).transform(BinaryType(), bucket=False)
    for row in rows.tolist():
        start = int(starts[row])
        value = data[start : start + int(lengths[row])].tobytes()
        hashes[row] = (one(value) or 0) & 0xFFFFFFFF


def _tails(data: NDArray[np.uint8], starts: Longs, lengths: Longs) -> Hashes:
    """The up to three last bytes of each value as a number."""
    tails = np.zeros(len(starts), np.uint32)
    for position in range(_BLOCK - 1):
        (rows,) = np.nonzero(lengths > position)
        tails[rows] |= data[starts[rows] + position].astype(np.uint32) << np.uint32(8 * position)
    return tails


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


def _scrambled(words: Hashes) -> Hashes:
    return _rotated(words * _C1, 15) * _C2


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    return _rotated(hashes ^ _scrambled(words), 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: Hashes, lengths: Hashes | np.uint32) -> Hashes:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))
