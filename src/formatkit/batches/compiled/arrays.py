"""Parts of compiled code that many formats need: bits, and values of Arrow arrays.

Bits are numbered from the lowest one of the first byte, as Arrow does it.
"""

from __future__ import annotations

from formatkit.batches.compiled.language import copy, load8, load32, load64, move16, ones, part, store32, store64

__all__ = ["AT_ONCE", "copy_bits", "is_set", "set_bits", "some_bytes", "spread"]

AT_ONCE = 56
"""So many bits have place in a word, wherever in its first byte they begin."""


@part
def is_set(bits: int, at: int) -> int:
    """Whether the bit number `at` is set: 1 or 0."""
    found: int = (load8(bits + (at >> 3)) >> (at & 7)) & 1
    return found


@part
def set_bits(target: int, at: int, word: int) -> None:
    """Set the bits from number `at` on that a word of at most 56 bits has; eight bytes are written."""
    byte = target + (at >> 3)
    store64(byte, load64(byte) | (word << (at & 7)))


@part
def some_bytes(at: int, end: int) -> int:
    """The next eight bytes, with zeros for those behind the end."""
    word: int = 0
    if end - at >= 8:
        word = load64(at)
    else:
        for number in range(end - at):
            word |= load8(at + number) << (8 * number)
    return word


@part
def copy_bits(target: int, at: int, source: int, end: int, count: int) -> int:
    """Set those bits from number `at` on that are set from number `source` of all memory on; returns how many are."""
    found = 0
    done = 0
    while done < count:
        step = min(count - done, AT_ONCE)
        bit = source + done
        word = (some_bytes(bit >> 3, end) >> (bit & 7)) & ((1 << step) - 1)
        set_bits(target, at + done, word)
        found += ones(word)
        done += step
    return found


@part
def _move_back(values: int, width: int, target: int, source: int) -> None:
    """Copy the value number `source` to number `target`, which is behind it."""
    if width == 8:
        store64(values + 8 * target, load64(values + 8 * source))
    elif width == 4:
        store32(values + 4 * target, load32(values + 4 * source))
    elif width == 16:
        move16(values + 16 * target, values + 16 * source)
    else:
        copy(values + width * target, values + width * source, width)


@part
def spread(values: int, width: int, validity: int, row: int, count: int, defined: int) -> None:
    """Move values that stand one behind the other to the rows that are not null.

    `defined` of `count` rows are not null; which ones the bits of `validity` tell, from number `row` on.
    """
    source = defined - 1
    for target in range(count - 1, -1, -1):
        if source == target:
            return
        if is_set(validity, row + target):
            _move_back(values, width, target, source)
            source -= 1
