"""The runs of a stream of integers, and within which limits the values of each are.

Most runs tell it by their headers, so that their values need not be looked at; what is told then are limits, not the
lowest and the highest value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Run", "run_1", "run_2"]

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""How many bits a value has, by the five bits that say it."""

_LARGE = 1 << 70
"""What stands for numbers that are larger than any that can be meant."""

_FEW_BYTES = 32


class Run(NamedTuple):
    """Where a run ends, how many values it has, the lowest and the highest of them, and what they add up to."""

    end: int
    length: int
    lowest: int
    highest: int
    total: int


def run_2(data: memoryview, at: int, *, signed: bool, exact: bool) -> Run | None:
    """A run of the second version; None if it is cut off, or none.

    Args:
        data: The stream.
        at: Where the run begins.
        signed: Whether values have their sign in their last bit.
        exact: Whether to look at the values. If not, the lowest may be too low, the highest and the sum too high.
    """
    head = data[at]
    if head < 0x40:
        return _repeated(data, at, signed)
    if at + 4 > len(data) + (head < 0x80):
        return None
    width, length = _WIDTHS[head >> 1 & 0x1F], ((head & 1) << 8 | data[at + 1]) + 1
    if head < 0x80:
        return _literal(data, at + 2, length, width, signed, exact)
    if head < 0xC0:
        return _patched(data, at + 2, length, width, exact)
    return _stepped(data, at + 2, length, width if head & 0x3E else 0, signed, exact)


def run_1(data: memoryview, at: int, *, signed: bool) -> Run | None:
    """A run of the first version, exact in any case. Of one that is cut off, the values count that are there."""
    head = data[at]
    if head < 0x80:
        if at + 2 > len(data):
            return None
        value, end = _varint(data, at + 2)
        value, length = _value(value, signed), head + 3
        last = value + (length - 1) * (data[at + 1] - (data[at + 1] >> 7 << 8))
        return Run(end, length, min(value, last), max(value, last), length * (value + last) // 2) if end else None
    values, end = [], at + 1
    for _ in range(0x100 - head):
        value, following = _varint(data, end)
        if not following:
            end = len(data)
            break
        values.append(_value(value, signed))
        end = following
    return Run(end, len(values), min(values), max(values), sum(values)) if values else None


def _repeated(data: memoryview, at: int, signed: bool) -> Run | None:
    """The same value, three to ten times."""
    head = data[at]
    end = at + 2 + (head >> 3 & 7)
    value, length = _value(int.from_bytes(data[at + 1 : end], "big"), signed), (head & 7) + 3
    return Run(end, length, value, value, length * value) if end <= len(data) else None


def _literal(data: memoryview, at: int, length: int, width: int, signed: bool, exact: bool) -> Run | None:
    """Values of the same width."""
    end = at + _bytes(length * width)
    if end > len(data):
        return None
    if exact:
        values = [_value(value, signed) for value in _packed(data, at, length, width)]
        return Run(end, length, min(values), max(values), sum(values))
    highest = (1 << (width - signed)) - 1
    lowest = -highest - 1 if signed and _any_sign(data[at:end], length, width) else 0
    return Run(end, length, lowest, highest, length * highest)


def _patched(data: memoryview, at: int, length: int, width: int, exact: bool) -> Run | None:
    """Values that are counted from a base, some of which have more bits than the others."""
    patch_bits, gap_bits, patches = _WIDTHS[data[at] & 0x1F], (data[at + 1] >> 5) + 1, data[at + 1] & 0x1F
    base_at, values_at = at + 2, at + 3 + (data[at] >> 5)
    patches_at = values_at + _bytes(length * width)
    if patch_bits + gap_bits > _WIDTHS[-1] or patches == 0:
        return None
    patch_width = next(bits for bits in _WIDTHS if bits >= patch_bits + gap_bits)
    end = patches_at + _bytes(patches * patch_width)
    if end > len(data):
        return None
    # The first bit of the base is its sign.
    sign = 1 << (8 * (values_at - base_at) - 1)
    base = int.from_bytes(data[base_at:values_at], "big")
    base = -(base - sign) if base & sign else base
    if not exact:
        most = length * (base + (1 << width)) + (patches << (width + patch_bits))
        return Run(end, length, base, base + (1 << (width + patch_bits)), most)
    values = [base + value for value in _packed(data, values_at, length, width)]
    place = 0
    for patch in _packed(data, patches_at, patches, patch_width):
        place += patch >> patch_bits
        if place < length:
            values[place] += (patch & ((1 << patch_bits) - 1)) << width
    return Run(end, length, base, max(values), sum(values))


def _stepped(data: memoryview, at: int, length: int, width: int, signed: bool, exact: bool) -> Run | None:
    """Values that differ from the one before by a step; all steps are the same, or have the same sign."""
    first, at = _varint(data, at)
    step, at = _varint(data, at) if at else (0, 0)
    end = at + _bytes(max(length - 2, 0) * width)
    if not at or end > len(data) or (width and length < 2):
        return None
    first, step = _value(first, signed), _value(step, signed=True)
    if not width:
        last = first + (length - 1) * step
        return Run(end, length, min(first, last), max(first, last), length * (first + last) // 2)
    if not exact:
        last = first + step + (length - 2) * ((1 << width) - 1) * (-1 if step < 0 else 1)
        return Run(end, length, min(first, last), max(first, last), length * max(first, last))
    values = [first, first + step]
    for more in _packed(data, at, length - 2, width):
        values.append(values[-1] - more if step < 0 else values[-1] + more)
    return Run(end, length, min(values), max(values), sum(values))


def _any_sign(stored: memoryview, length: int, width: int) -> bool:
    """Whether any value of so many bits is below 0, which is told by its last bit."""
    number = int.from_bytes(stored, "big") >> (8 * len(stored) - length * width)
    return bool(number & ((1 << length * width) - 1) // ((1 << width) - 1))


def _bytes(bits: int) -> int:
    return (bits + 7) // 8


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """An unsigned number, and where it ends: 0 if it is cut off."""
    number, shift = 0, 0
    for place in range(at, len(data)):
        byte = data[place]
        number = number | (byte & 0x7F) << shift if shift < 70 else _LARGE
        if byte < 0x80:
            return number, place + 1
        shift += 7
    return 0, 0


def _value(number: int, signed: bool) -> int:
    return (number >> 1) ^ -(number & 1) if signed else number


def _packed(data: memoryview, at: int, length: int, width: int) -> list[int]:
    """Values of so many bits."""
    size = _bytes(length * width)
    if size <= _FEW_BYTES:
        number = int.from_bytes(data[at : at + size], "big") >> (8 * size - length * width)
        return [number >> place & ((1 << width) - 1) for place in range((length - 1) * width, -1, -width)]
    bits = np.unpackbits(np.frombuffer(data[at : at + size], np.uint8), count=length * width).reshape(length, width)
    values: list[int] = (bits @ (1 << np.arange(width, dtype=np.uint64)[::-1])).tolist()
    return values
