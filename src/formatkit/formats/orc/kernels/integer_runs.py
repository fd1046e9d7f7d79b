"""Compiled code that decodes streams of integers, in both versions of their encoding.

Every function compares addresses with the end of the stream before it follows them. Eight bytes behind may be read.
"""

from __future__ import annotations

from formatkit.batches.compiled.language import copy, entry, load8, load64, part, reversed_bytes, store64
from formatkit.formats.orc.kernels.numbers import AT, BUFFER, DAMAGED, END, LEFT, LONGEST_RUN, VALUE

__all__ = ["next_integers"]

_WIDE = (26, 28, 30, 32, 40, 48, 56, 64)
_LARGEST = 0x7FFFFFFFFFFFFFFF


@part
def _width(code: int) -> int:
    """How many bits a value has, by the five bits that say it."""
    return code + 1 if code < 24 else _WIDE[code - 24]


@part
def _value(number: int, signed: int) -> int:
    """The number that is meant: the sign may stand in the lowest bit."""
    return ((number >> 1) & _LARGEST) ^ -(number & 1) if signed else number


@part
def _varint(at: int, end: int) -> tuple[int, int]:
    """An unsigned number, and where it ends; 0 if it is cut off or has more than 64 bits."""
    number = 0
    shift = 0
    while at < end and shift < 70:
        byte = load8(at)
        at += 1
        number |= (byte & 0x7F) << min(shift, 63)
        if byte < 0x80:
            return number, at if shift < 63 or byte < 2 else 0
        shift += 7
    return 0, 0


@part
def _packed(at: int, bit: int, width: int) -> int:
    """The number of `width` bits that begins `bit` bits behind `at`, its highest bit first."""
    if width == 64:
        whole: int = reversed_bytes(load64(at + (bit >> 3)))
        return whole
    word = reversed_bytes(load64(at + (bit >> 3)))
    found: int = (word >> (64 - width - (bit & 7))) & ((1 << width) - 1)
    return found


@part
def _repeated(at: int, end: int, signed: int, target: int) -> tuple[int, int]:
    """A value that is repeated three to ten times."""
    head = load8(at)
    size, count = ((head >> 3) & 7) + 1, (head & 7) + 3
    if size > end - at - 1:
        return 0, 0
    value = _value(_packed(at + 1, 0, 8 * size), signed)
    for number in range(count):
        store64(target + 8 * number, value)
    return at + 1 + size, count


@part
def _literal(at: int, end: int, width: int, count: int, signed: int, target: int) -> int:
    """Values of the same width; returns where they end."""
    size = (count * width + 7) >> 3
    if size > end - at:
        return 0
    bit = 0
    if signed:
        for number in range(count):
            store64(target + 8 * number, _value(_packed(at, bit, width), 1))
            bit += width
    else:
        for number in range(count):
            store64(target + 8 * number, _packed(at, bit, width))
            bit += width
    return at + size


@part
def _patched(at: int, end: int, width: int, count: int, target: int) -> int:
    """Values that are counted from a base, some of which have more bits than the others; returns where they end."""
    if end - at < 2:
        return 0
    head, following = load8(at), load8(at + 1)
    base_size, patch_bits = (head >> 5) + 1, _width(head & 0x1F)
    gap_bits, patches = (following >> 5) + 1, following & 0x1F
    if patches == 0 or patch_bits + gap_bits > 64 or width == 64:
        return 0
    patch_width = patch_bits + gap_bits
    if patch_width > 24:
        patch_width = 64 if patch_width > 56 else (patch_width + 7) & ~7 if patch_width > 32 else (patch_width + 1) & ~1
    values = at + 2 + base_size
    list_at = values + ((count * width + 7) >> 3)
    stop: int = list_at + ((patches * patch_width + 7) >> 3)
    if stop > end:
        return 0
    # The first bit of the base is its sign.
    base, sign = _packed(at + 2, 0, 8 * base_size), 1 << (8 * base_size - 1)
    if base & sign:
        base = -(base & ~sign)
    _literal(values, end, width, count, 0, target)
    place = 0
    for number in range(patches):
        patch = _packed(list_at, number * patch_width, patch_width)
        gap = (patch >> patch_bits) & ((1 << (64 - patch_bits)) - 1)
        place += gap
        if place >= count or (number and gap == 0):
            return 0
        more = patch & ((1 << patch_bits) - 1)
        store64(target + 8 * place, load64(target + 8 * place) | (more << width))
    for number in range(count):
        store64(target + 8 * number, load64(target + 8 * number) + base)
    return stop


@part
def _stepped(at: int, end: int, width: int, count: int, signed: int, target: int) -> int:
    """Values that differ from the one before by a step; returns where they end."""
    number, at = _varint(at, end)
    if at == 0:
        return 0
    value = _value(number, signed)
    number, at = _varint(at, end)
    if at == 0 or (width and count < 2):
        return 0
    step = _value(number, 1)
    store64(target, value)
    if width == 0:
        for place in range(1, count):
            value += step
            store64(target + 8 * place, value)
        return at
    size = ((count - 2) * width + 7) >> 3
    if size > end - at:
        return 0
    value += step
    store64(target + 8, value)
    bit = 0
    for place in range(2, count):
        more = _packed(at, bit, width)
        value += -more if step < 0 else more
        store64(target + 8 * place, value)
        bit += width
    return at + size


@part
def _run_2(at: int, end: int, signed: int, target: int) -> tuple[int, int]:
    """A run of the second version; returns where it ends, or 0, and how many values it has."""
    head = load8(at)
    if head < 0x40:
        return _repeated(at, end, signed, target)
    if end - at < 2:
        return 0, 0
    code, count = (head >> 1) & 0x1F, (((head & 1) << 8) | load8(at + 1)) + 1
    if head < 0x80:
        return _literal(at + 2, end, _width(code), count, signed, target), count
    if head < 0xC0:
        return _patched(at + 2, end, _width(code), count, target), count
    return _stepped(at + 2, end, _width(code) if code else 0, count, signed, target), count


@part
def _run_1(at: int, end: int, signed: int, target: int) -> tuple[int, int]:
    """A run of the first version; returns where it ends, or 0, and how many values it has."""
    head = load8(at)
    at += 1
    if head < 0x80:
        if at >= end:
            return 0, 0
        step = (load8(at) ^ 0x80) - 0x80
        number, at = _varint(at + 1, end)
        value = _value(number, signed)
        for place in range(head + 3):
            store64(target + 8 * place, value + place * step)
        return at, head + 3
    for place in range(0x100 - head):
        number, at = _varint(at, end)
        if at == 0:
            return 0, 0
        store64(target + 8 * place, _value(number, signed))
    return at, 0x100 - head


@part
def _next_run(cursor: int, signed: int, first_version: int, target: int) -> int:
    """Decode the next run, of up to 512 values; returns how many it has."""
    at, end = load64(cursor + 8 * AT), load64(cursor + 8 * END)
    if at >= end:
        return DAMAGED
    if first_version:
        at, count = _run_1(at, end, signed, target)
    else:
        at, count = _run_2(at, end, signed, target)
    store64(cursor + 8 * AT, at)
    return count if at else DAMAGED


@entry
def next_integers(cursor: int, count: int, signed: int, first_version: int, target: int) -> int:
    """Decode integers to 64 bits each."""
    done = 0
    while done < count:
        left, place = load64(cursor + 8 * LEFT), load64(cursor + 8 * VALUE)
        if left:
            step = min(left, count - done)
            copy(target + 8 * done, cursor + 8 * (BUFFER + place), 8 * step)
            store64(cursor + 8 * LEFT, left - step)
            store64(cursor + 8 * VALUE, place + step)
            done += step
        elif count - done >= LONGEST_RUN:
            found = _next_run(cursor, signed, first_version, target + 8 * done)
            if found < 0:
                return DAMAGED
            done += found
        else:
            found = _next_run(cursor, signed, first_version, cursor + 8 * BUFFER)
            if found < 0:
                return DAMAGED
            store64(cursor + 8 * LEFT, found)
            store64(cursor + 8 * VALUE, 0)
    return 0
