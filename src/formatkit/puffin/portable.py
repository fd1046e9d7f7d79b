"""Roaring bitmaps of 64-bit positions in the portable form: what is inside a deletion vector."""

from __future__ import annotations

import struct
from typing import NoReturn

import numpy as np

from formatkit.contract.batch import Longs
from formatkit.errors import CorruptFileError
from formatkit.puffin.containers import ARRAY, BITMAP, BITMAP_WORDS, LARGEST_ARRAY, RUN, Containers
from formatkit.puffin.row_positions import LARGEST_KEY

__all__ = ["Cursor", "read_positions", "write_positions"]

_WITHOUT_RUNS = 12346
_WITH_RUNS = 12347
_MOST_WITHOUT_OFFSETS = 3
_MOST_CONTAINERS = 65536


class Cursor:
    """Bytes that are read from the front. Every length is checked, because it may come from damaged bytes."""

    def __init__(self, data: memoryview, location: str) -> None:
        self._data = data
        self._location = location
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> memoryview:
        if length > self.left:
            self.fail(f"{length} bytes are wanted where {self.left} are left")
        self._at += length
        return self._data[self._at - length : self._at]

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def longs(self, form: str, count: int) -> Longs:
        """`count` numbers of a NumPy type, widened."""
        return np.frombuffer(self.take(count * np.dtype(form).itemsize), form).astype(np.int64)

    def rest(self) -> memoryview:
        """What is left, without taking it."""
        return self._data[self._at :]

    def fail(self, what: str) -> NoReturn:
        message = f"{self._location}: holds a corrupt deletion vector: {what}"
        raise CorruptFileError(message, location=self._location)


def read_positions(cursor: Cursor) -> Containers:
    """Read a bitmap, which must be all that is left."""
    count = cursor.number("<Q")
    parts: list[Containers] = []
    last = -1
    # The count is not trusted: the loop ends with the bytes, of which each turn takes some.
    for _ in range(count):
        key = cursor.number("<I")
        if not last < key <= LARGEST_KEY:
            cursor.fail(f"the key {key} follows {last}; keys ascend, up to {LARGEST_KEY}")
        if containers := _read_bitmap(cursor, key << 16):
            parts.append(containers)
        last = key
    if cursor.left:
        cursor.fail(f"{cursor.left} bytes follow the last bitmap")
    whole = Containers.concatenated(parts)
    if defect := whole.defect():
        cursor.fail(defect)
    return whole


def write_positions(containers: Containers) -> bytes:
    """The bitmap as bytes. Stretches of 2³² rows without positions are left out."""
    stretches = containers.keys >> 16
    keys = np.unique(stretches)
    pieces = [struct.pack("<Q", len(keys))]
    for key in keys.tolist():
        pieces.append(struct.pack("<I", key))
        start, stop = np.searchsorted(stretches, [key, key + 1]).tolist()
        pieces.extend(_written_bitmap(containers.part(start, stop)))
    return b"".join(pieces)


def _read_bitmap(cursor: Cursor, base: int) -> Containers | None:
    """Read a bitmap of 32-bit values whose containers' keys begin at `base`; None if it is empty."""
    before = cursor.left
    cookie = cursor.number("<I")
    has_runs = cookie & 0xFFFF == _WITH_RUNS
    if not has_runs and cookie != _WITHOUT_RUNS:
        cursor.fail(f"a bitmap begins with the cookie {cookie}")
    count = (cookie >> 16) + 1 if has_runs else cursor.number("<I")
    if not count:
        return None
    if count > _MOST_CONTAINERS:
        cursor.fail(f"a bitmap claims {count} containers")
    flags = np.frombuffer(cursor.take((count + 7) // 8 if has_runs else 0), np.uint8)
    described = cursor.longs("<u2", 2 * count)
    keys, cardinalities = described[::2], described[1::2] + 1
    if (keys[1:] <= keys[:-1]).any():
        cursor.fail("the keys of the containers do not ascend")
    kinds = np.where(cardinalities > LARGEST_ARRAY, BITMAP, ARRAY).astype(np.uint8)
    if has_runs:
        kinds[np.unpackbits(flags, count=count, bitorder="little").astype(np.bool_)] = RUN
    has_offsets = not has_runs or count > _MOST_WITHOUT_OFFSETS
    offsets = cursor.longs("<u4", count if has_offsets else 0)
    header = before - cursor.left

    sizes = np.where(kinds == BITMAP, BITMAP_WORDS, cardinalities)
    encoded = np.flatnonzero(kinds == RUN)
    if has_offsets:
        sizes[encoded] = _words_of_runs(cursor, (offsets[encoded] - header) // 2)
    else:
        for which in encoded.tolist():
            sizes[which] = _words_of_runs(cursor, sizes[:which].sum(keepdims=True))[0]
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    if has_offsets and (offsets != header + 2 * bounds[:-1]).any():
        cursor.fail("the containers are not where the offsets say")
    words = np.frombuffer(cursor.take(2 * int(bounds[-1])), "<u2").astype(np.uint16)
    return Containers(base + keys, kinds, cardinalities, bounds, words)


def _words_of_runs(cursor: Cursor, at: Longs) -> Longs:
    """How long the run containers are that begin so many words from here; their first word says it."""
    words = np.frombuffer(cursor.rest(), "<u2", count=cursor.left // 2)
    if ((at < 0) | (at >= len(words))).any():
        cursor.fail("a container begins outside of the bitmap")
    return 1 + 2 * words[at].astype(np.int64)


def _written_bitmap(containers: Containers) -> list[bytes]:
    """The parts of a bitmap of 32-bit values."""
    count = len(containers)
    encoded = containers.kinds == RUN
    has_runs = bool(encoded.any())
    if has_runs:
        header = struct.pack("<I", _WITH_RUNS | (count - 1) << 16) + np.packbits(encoded, bitorder="little").tobytes()
    else:
        header = struct.pack("<II", _WITHOUT_RUNS, count)
    described = np.empty(2 * count, "<u2")
    described[::2] = containers.keys & 0xFFFF
    described[1::2] = containers.cardinalities - 1
    pieces = [header, described.tobytes()]
    if not has_runs or count > _MOST_WITHOUT_OFFSETS:
        first = len(header) + 8 * count
        pieces.append((first + 2 * containers.bounds[:-1]).astype("<u4").tobytes())
    pieces.append(containers.words.astype("<u2", copy=False).tobytes())
    return pieces
