"""The compiled part of the encoder: runs a program over the rows of a batch and writes Avro's binary form.

A program has one instruction for each value of a row, in the order of the Avro schema, as eight 64-bit integers:

    code      what to write
    present   the byte that announces a value in a union with null, or -1 outside of unions; null is 2 minus it
    validity  the address of the bitmap of nulls, or 0 if there are none
    shift     the bit of the first row in `validity`, and in `values` of BOOLEAN
    values    the address of the first row's value: a number, fixed bytes, or the first of two offsets
    data      BYTES: the address that the offsets count from
    size      FIXED, DECIMAL: bytes of a value. BYTES, LIST: how far offsets may reach
    next      the instruction after this value and all below it; LIST_NEXT: the first one of an element

Offsets are the only input that can lead outside of a buffer, so they are compared with `size` before they are used;
that buffers are as long as their columns is Arrow's `validate` to say. Every write is inside the output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from formatkit.batches.compiled.language import (
    copy,
    entry,
    inline,
    leading_zeros,
    load8,
    load32,
    load64,
    reversed_bytes,
    store8,
    store32,
    store64,
)
from formatkit.formats.avro.kernels.encode_codes import (
    BAD_DECIMAL,
    BAD_OFFSETS,
    BOOLEAN,
    BYTES,
    DECIMAL,
    DONE,
    FIXED,
    FIXED4,
    FIXED8,
    FULL,
    INSTRUCTION_BYTES,
    INT,
    LIST,
    LIST_NEXT,
    LONG,
    MARGIN,
    MAX_SHORT,
    STRUCT,
)

__all__ = ["encode"]


@inline
def _write_long(position: Any, value: Any) -> Any:
    """Write zigzag form, seven bits a byte, and return how many. Up to eight bytes are made and stored at once."""
    bits = (value << 1) ^ (value >> 63)
    if 0 <= bits < 128:
        store8(position, bits)
        return np.int64(1)
    if bits & ~np.int64(0x00FF_FFFF_FFFF_FFFF) == 0:
        bytes_before_last = ((63 - leading_zeros(bits)) * 9 + 9) >> 6
        spread = (bits & 0x0FFF_FFFF) | ((bits & 0x00FF_FFFF_F000_0000) << 4)
        spread = (spread & 0x0000_3FFF_0000_3FFF) | ((spread & 0x0FFF_C000_0FFF_C000) << 2)
        spread = (spread & 0x007F_007F_007F_007F) | ((spread & 0x3F80_3F80_3F80_3F80) << 1)
        more_follow = ((np.int64(1) << (8 * bytes_before_last)) - 1) & 0x0080_8080_8080_8080
        store64(position, spread | more_follow)
        return bytes_before_last + 1
    length = np.int64(0)
    while bits & ~np.int64(127) != 0:
        store8(position + length, (bits & 127) | 128)
        length += 1
        bits = (bits >> 7) & 0x01FF_FFFF_FFFF_FFFF
    store8(position + length, bits)
    return length + 1


@inline
def _write_bytes(position: Any, source: Any, length: Any, readable: Any) -> None:
    """Copy `length` of `readable` bytes. Short ones are copied in one piece with what follows, where enough does."""
    if length <= MAX_SHORT and readable >= MAX_SHORT:
        # Of a length that the compiler knows it makes two instructions instead of a call.
        copy(position, source, MAX_SHORT)
    else:
        copy(position, source, length)


@inline
def _write_decimal(position: Any, source: Any, length: Any) -> Any:
    """The last `length` bytes of a 16-byte number, highest first. False if the number needs more bytes."""
    low, high = load64(source), load64(source + 8)
    if length <= 8:
        shift = 64 - 8 * length
        shifted = low << shift
        store64(position, reversed_bytes(shifted))
        return shifted >> shift == low and high == low >> 63
    shift = 128 - 8 * length
    shifted = high << shift
    if shift:
        store64(position, reversed_bytes(shifted | ((low >> (64 - shift)) & ((np.int64(1) << shift) - 1))))
    else:
        store64(position, reversed_bytes(high))
    store64(position + 8, reversed_bytes(low << shift))
    return shifted >> shift == high


@entry
def encode(program: Any, length: Any, rows: Any, position: Any, target: Any, end: Any, stack: Any, state: Any) -> Any:  # noqa: C901
    """Write rows until there are no more or the output has reached `target`.

    Args:
        program: The address of the first instruction.
        length: The number of instructions.
        rows: The number of rows in the batch.
        position: Where in the output to go on.
        target: Where the output is long enough.
        end: Where the output ends.
        stack: Two integers for each level of lists.
        state: Three integers: the next row; where the output of whole rows ends; the instruction that failed.

    Returns:
        DONE, FULL if the next row does not fit into the output, or what is wrong with the next row.
    """
    row = load64(state)
    whole_rows = position
    status = np.int64(DONE)
    while row < rows and position < target and status == DONE:
        index, frame, counter = row, stack, np.int64(0)
        while counter < length:
            if position + MARGIN > end:
                status = np.int64(FULL)
                break
            instruction = program + INSTRUCTION_BYTES * counter
            code, present, valid = load64(instruction), load64(instruction + 8), np.int64(1)
            if present >= 0:
                validity = load64(instruction + 16)
                if validity != 0:
                    bit = index + load64(instruction + 24)
                    valid = (np.int64(load8(validity + (bit >> 3))) >> (bit & 7)) & 1
                store8(position, 2 - present + 2 * valid * (present - 1))
                position += 1
            # What a leaf has in place of a null is written too, and then written over.
            values = load64(instruction + 32)
            if code == LONG:
                position += valid * _write_long(position, load64(values + 8 * index))
            elif code == INT:
                position += valid * _write_long(position, np.int64(load32(values + 4 * index)))
            elif code == FIXED8:
                store64(position, load64(values + 8 * index))
                position += 8 * valid
            elif code == BYTES:
                first, last = np.int64(load32(values + 4 * index)), np.int64(load32(values + 4 * index + 4))
                size, readable = last - first, load64(instruction + 48) - first
                if first < 0 or size < 0 or size > readable:
                    status = np.int64(BAD_OFFSETS)
                    break
                if position + size + MARGIN > end:
                    status = np.int64(FULL)
                    break
                prefix = _write_long(position, size)
                _write_bytes(position + prefix, load64(instruction + 40) + first, size, readable)
                position += valid * (prefix + size)
            elif code == STRUCT:
                if valid == 0:
                    counter = load64(instruction + 56)
                    continue
            elif code == LIST:
                if valid == 0:
                    counter = load64(instruction + 56)
                    continue
                first, last = np.int64(load32(values + 4 * index)), np.int64(load32(values + 4 * index + 4))
                if first < 0 or last < first or last > load64(instruction + 48):
                    status = np.int64(BAD_OFFSETS)
                    break
                if first == last:
                    store8(position, 0)
                    position += 1
                    counter = load64(instruction + 56)
                    continue
                position += _write_long(position, last - first)
                store64(frame, index)
                store64(frame + 8, last)
                frame += 16
                index = first
            elif code == LIST_NEXT:
                index += 1
                if index < load64(frame - 8):
                    counter = load64(instruction + 56)
                    continue
                frame -= 16
                index = load64(frame)
                store8(position, 0)
                position += 1
            elif code == DECIMAL:
                size = load64(instruction + 48)
                if not _write_decimal(position, values + 16 * index, size) and valid == 1:
                    status = np.int64(BAD_DECIMAL)
                    break
                position += valid * size
            elif code == BOOLEAN:
                bit = index + load64(instruction + 24)
                store8(position, (np.int64(load8(values + (bit >> 3))) >> (bit & 7)) & 1)
                position += valid
            elif code == FIXED4:
                store32(position, np.int64(load32(values + 4 * index)))
                position += 4 * valid
            elif code == FIXED:
                size = load64(instruction + 48)
                if position + size + MARGIN > end:
                    status = np.int64(FULL)
                    break
                copy(position, values + size * index, size)
                position += valid * size
            counter += 1
        if status == DONE:
            row += 1
            whole_rows = position
        else:
            store64(state + 16, counter)
    store64(state, row)
    store64(state + 8, whole_rows)
    return status
