"""The compiled readers of single values, which become a part of the loop in `kernel`."""

from __future__ import annotations

from typing import Any

import numpy as np

from formatkit.batches.compiled.language import inline, load8, store8, store64
from formatkit.formats.avro.kernels.opcodes import Outcome

__all__ = ["decimal", "uuid", "varint"]

_LARGEST = 0x7FFFFFFFFFFFFFFF


@inline
def varint(place: Any, end: Any) -> Any:
    """The integer at `place` and the place behind it, or an outcome below zero instead of that place."""
    if place >= end:
        return np.int64(0), np.int64(Outcome.TRUNCATED)
    byte = np.int64(load8(place))
    place += 1
    bits = byte & 0x7F
    if byte >= 0x80:
        shift = 7
        while True:
            if place >= end:
                return np.int64(0), np.int64(Outcome.TRUNCATED)
            byte = np.int64(load8(place))
            place += 1
            if shift == 63 and byte > 1:
                return np.int64(0), np.int64(Outcome.LONG_VARINT)
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    return ((bits >> 1) & _LARGEST) ^ -(bits & 1), place


@inline
def decimal(source: Any, width: Any, target: Any) -> Any:
    """Turn a big-endian number into 128 bits; whether it fits. Without bytes it is zero."""
    sign = np.int64(load8(source)) >> 7 if width > 0 else np.int64(0)
    first = np.int64(0)
    if width > 16:
        first = width - 16
        for place in range(first):
            if np.int64(load8(source + place)) != 255 * sign:
                return False
        if np.int64(load8(source + first)) >> 7 != sign:
            return False
    low = -sign
    high = -sign
    if width <= 8:
        for place in range(width):
            low = (low << 8) | np.int64(load8(source + place))
    else:
        for place in range(first, width):
            high = (high << 8) | ((low >> 56) & 0xFF)
            low = (low << 8) | np.int64(load8(source + place))
    store64(target, low)
    store64(target + 8, high)
    return True


@inline
def _hex_digit(character: Any) -> Any:
    if 48 <= character <= 57:
        return character - 48
    letter = character | 32
    return letter - 87 if 97 <= letter <= 102 else np.int64(-1)


@inline
def uuid(source: Any, target: Any) -> Any:
    """Turn 36 characters into 16 bytes; whether they spell a uuid."""
    place = source
    for byte in range(16):
        if byte == 4 or byte == 6 or byte == 8 or byte == 10:
            if load8(place) != 45:
                return False
            place += 1
        high = _hex_digit(np.int64(load8(place)))
        low = _hex_digit(np.int64(load8(place + 1)))
        if high < 0 or low < 0:
            return False
        store8(target + byte, (high << 4) | low)
        place += 2
    return True
