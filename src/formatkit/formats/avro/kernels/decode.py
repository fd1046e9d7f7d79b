"""The compiled part of the decoder: runs a program over the rows of one block.

Every read is compared with the end of the block and every write with the capacity of its slot before it happens, so
that a damaged block cannot reach memory that is not its own. The program itself is trusted: its slots, jumps and
balance of the stack are the compiler's to get right. A run that lacks room ends with
the place in the state, and goes on there when the caller has made room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from formatkit.batches.compiled.language import copy, entry, load8, load32, load64, store8, store32, store64
from formatkit.formats.avro.kernels.opcodes import LAST_WITH_VARINT, VARINT_WIDTH, Op, Outcome
from formatkit.formats.avro.kernels.values import decimal, uuid, varint

__all__ = ["decode"]

# The address of each part of the state, of a slot and of an operation, in bytes from its beginning.
_PLACE, _END, _ROW, _LAST_ROW, _OPERATION, _DEPTH, _MAX_DEPTH, _SLOT, _NEED = range(0, 72, 8)
_BASE, _COUNT, _CAPACITY, _NULLS, _SLOT_BYTES = range(0, 40, 8)
_OPERATION_BYTES = 32
_LARGEST = 0x7FFFFFFFFFFFFFFF
# Values up to this many bytes, a multiple of 16, are copied word by word.
_SHORT = 64


@entry
def decode(state: Any, operations: Any, slots: Any, stack: Any) -> Any:  # noqa: C901 - one case for each operation
    """Decode rows until the last one that the state asks for; all arguments are addresses."""
    place = load64(state + _PLACE)
    end = load64(state + _END)
    row = load64(state + _ROW)
    last_row = load64(state + _LAST_ROW)
    current = load64(state + _OPERATION)
    depth = load64(state + _DEPTH)
    max_depth = load64(state + _MAX_DEPTH)
    outcome = np.int64(Outcome.DONE)
    need = np.int64(0)
    while row < last_row:
        operation = operations + current * _OPERATION_BYTES
        code = load64(operation)
        slot = slots + load64(operation + 8) * _SLOT_BYTES
        argument = load64(operation + 16)
        count = load64(slot + _COUNT)
        room = load64(slot + _CAPACITY) - count
        base = load64(slot + _BASE)
        if code <= LAST_WITH_VARINT:
            value, after = varint(place, end)
            if after < 0:
                outcome = after
                break
            if code == Op.LONG:
                if room < 1:
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    break
                store64(base + 8 * count, value)
                store64(slot + _COUNT, count + 1)
            elif code == Op.BYTES:
                ends = slots + argument * _SLOT_BYTES
                ended = load64(ends + _COUNT)
                if value < 0:
                    outcome = np.int64(Outcome.NEGATIVE_LENGTH)
                    break
                if value > end - after:
                    outcome = np.int64(Outcome.TRUNCATED)
                    break
                if value > room:
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    need = value
                    break
                if ended >= load64(ends + _CAPACITY):
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    slot = ends
                    break
                if value <= _SHORT and end - after >= _SHORT and room >= _SHORT:
                    # Whole words are faster than a call; what is copied too much is overwritten or never read.
                    step = np.int64(0)
                    while step < value:
                        store64(base + count + step, load64(after + step))
                        store64(base + count + step + 8, load64(after + step + 8))
                        step += 16
                else:
                    copy(base + count, after, value)
                after += value
                count += value
                store64(slot + _COUNT, count)
                store32(load64(ends + _BASE) + 4 * ended, count)
                store64(ends + _COUNT, ended + 1)
            elif code == Op.OPTION:
                if value < 0 or value > 1:
                    outcome = np.int64(Outcome.WRONG_BRANCH)
                    break
                if room < 1:
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    break
                store64(slot + _COUNT, count + 1)
                if value == argument:
                    store8(base + count, np.int64(0))
                    store64(slot + _NULLS, load64(slot + _NULLS) + 1)
                    place = after
                    current = load64(operation + 24)
                    continue
                store8(base + count, np.int64(1))
            elif code == Op.INT:
                if value < -0x80000000 or value > 0x7FFFFFFF:
                    outcome = np.int64(Outcome.OUT_OF_RANGE)
                    break
                if room < 1:
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    break
                store32(base + 4 * count, value)
                store64(slot + _COUNT, count + 1)
            elif code == Op.BLOCK or code == Op.EMPTY_BLOCK:
                elements = slots + argument * _SLOT_BYTES
                if value < 0:
                    size, after = varint(after, end)
                    if after < 0:
                        outcome = after
                        break
                    if value < -_LARGEST or size < 0:
                        outcome = np.int64(Outcome.NEGATIVE_LENGTH)
                        break
                    value = -value
                if value == 0:
                    if room < 1:
                        outcome = np.int64(Outcome.NEEDS_ROOM)
                        break
                    store32(base + 4 * count, load64(elements + _COUNT))
                    store64(slot + _COUNT, count + 1)
                    place = after
                    current = load64(operation + 24)
                    continue
                if code == Op.EMPTY_BLOCK:
                    counted = load64(elements + _COUNT)
                    if value > load64(elements + _CAPACITY) - counted:
                        outcome = np.int64(Outcome.NEEDS_ROOM)
                        slot = elements
                        need = value
                        break
                    store64(elements + _COUNT, counted + value)
                    place = after
                    continue
                if depth >= max_depth:
                    outcome = np.int64(Outcome.NEEDS_STACK)
                    break
                store64(stack + 8 * depth, value)
                depth += 1
            elif code == Op.SKIP_SIZED:
                if value < 0:
                    outcome = np.int64(Outcome.NEGATIVE_LENGTH)
                    break
                if value > end - after:
                    outcome = np.int64(Outcome.TRUNCATED)
                    break
                after += value
            elif code == Op.SKIP_OPTION:
                if value < 0 or value > 1:
                    outcome = np.int64(Outcome.WRONG_BRANCH)
                    break
                if value == argument:
                    place = after
                    current = load64(operation + 24)
                    continue
            elif code == Op.SCALED:
                # Compared before, because compilers take for granted that products do not overflow.
                if value > _LARGEST // argument or value < -(_LARGEST // argument):
                    outcome = np.int64(Outcome.OUT_OF_RANGE)
                    break
                if room < 1:
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    break
                store64(base + 8 * count, value * argument)
                store64(slot + _COUNT, count + 1)
            elif code == Op.DECIMAL_BYTES:
                if value < 0:
                    outcome = np.int64(Outcome.NEGATIVE_LENGTH)
                    break
                if value > end - after:
                    outcome = np.int64(Outcome.TRUNCATED)
                    break
                if room < 1:
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    break
                if not decimal(after, value, base + 16 * count):
                    outcome = np.int64(Outcome.WIDE_DECIMAL)
                    break
                after += value
                store64(slot + _COUNT, count + 1)
            elif code == Op.SYMBOL:
                if value < 0 or value >= argument:
                    outcome = np.int64(Outcome.WRONG_SYMBOL)
                    break
                if room < 1:
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    break
                store32(base + 4 * count, value)
                store64(slot + _COUNT, count + 1)
            elif code == Op.UUID_TEXT:
                if value != 36:
                    outcome = np.int64(Outcome.WRONG_UUID)
                    break
                if value > end - after:
                    outcome = np.int64(Outcome.TRUNCATED)
                    break
                if room < 1:
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    break
                if not uuid(after, base + 16 * count):
                    outcome = np.int64(Outcome.WRONG_UUID)
                    break
                after += value
                store64(slot + _COUNT, count + 1)
            elif code == Op.ONLY_BRANCH:
                if value != 0:
                    outcome = np.int64(Outcome.WRONG_BRANCH)
                    break
            elif code == Op.SKIP_BLOCK:
                size = np.int64(-1)
                if value < 0:
                    # The writer says how long the block is, so that it can be passed over without a look.
                    size, after = varint(after, end)
                    if after < 0:
                        outcome = after
                        break
                    if size < 0:
                        outcome = np.int64(Outcome.NEGATIVE_LENGTH)
                        break
                elif value == 0:
                    place = after
                    current = load64(operation + 24)
                    continue
                elif argument == 0:
                    size = np.int64(0)
                elif argument > 0:
                    size = value * argument if value <= (end - after) // argument else end - after + 1
                elif argument == VARINT_WIDTH:
                    place = after
                    while value > 0 and place < end:
                        if load8(place) < 0x80:
                            value -= 1
                        place += 1
                    if value > 0:
                        outcome = np.int64(Outcome.TRUNCATED)
                        break
                    continue
                if size >= 0:
                    if size > end - after:
                        outcome = np.int64(Outcome.TRUNCATED)
                        break
                    place = after + size
                    continue
                if depth >= max_depth:
                    outcome = np.int64(Outcome.NEEDS_STACK)
                    break
                store64(stack + 8 * depth, value)
                depth += 1
            elif code == Op.UNION:
                if value < 0 or value >= argument:
                    outcome = np.int64(Outcome.WRONG_BRANCH)
                    break
                if depth >= max_depth:
                    outcome = np.int64(Outcome.NEEDS_STACK)
                    break
                store64(stack + 8 * depth, value)
                depth += 1
            else:  # SWITCH
                if value < 0 or value >= argument:
                    outcome = np.int64(Outcome.WRONG_BRANCH)
                    break
                current += value
            place = after
        elif code == Op.END_ROW:
            row += 1
            current = 0
            continue
        elif code == Op.EIGHT:
            if end - place < 8:
                outcome = np.int64(Outcome.TRUNCATED)
                break
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            store64(base + 8 * count, load64(place))
            store64(slot + _COUNT, count + 1)
            place += 8
        elif code == Op.FOUR:
            if end - place < 4:
                outcome = np.int64(Outcome.TRUNCATED)
                break
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            store32(base + 4 * count, np.int64(load32(place)))
            store64(slot + _COUNT, count + 1)
            place += 4
        elif code == Op.BOOLEAN:
            if end - place < 1:
                outcome = np.int64(Outcome.TRUNCATED)
                break
            if load8(place) > 1:
                outcome = np.int64(Outcome.WRONG_BOOLEAN)
                break
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            store8(base + count, np.int64(load8(place)))
            store64(slot + _COUNT, count + 1)
            place += 1
        elif code == Op.FIXED or code == Op.DECIMAL_FIXED:
            if end - place < argument:
                outcome = np.int64(Outcome.TRUNCATED)
                break
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            if code == Op.FIXED:
                copy(base + argument * count, place, argument)
            elif not decimal(place, argument, base + 16 * count):
                outcome = np.int64(Outcome.WIDE_DECIMAL)
                break
            store64(slot + _COUNT, count + 1)
            place += argument
        elif code == Op.NEXT or code == Op.SKIP_NEXT:
            if code == Op.NEXT:
                elements = slots + argument * _SLOT_BYTES
                counted = load64(elements + _COUNT)
                if counted >= load64(elements + _CAPACITY):
                    outcome = np.int64(Outcome.NEEDS_ROOM)
                    slot = elements
                    break
                store64(elements + _COUNT, counted + 1)
            left = load64(stack + 8 * depth - 8) - 1
            current = load64(operation + 24)
            if left == 0:
                depth -= 1
            else:
                store64(stack + 8 * depth - 8, left)
                current += 1
            continue
        elif code == Op.UNION_BRANCH or code == Op.UNION_OPTION:
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            store64(slot + _COUNT, count + 1)
            if (load64(stack + 8 * depth - 8) == argument) != (code == Op.UNION_BRANCH):
                store8(base + count, np.int64(0))
                store64(slot + _NULLS, load64(slot + _NULLS) + 1)
                current = load64(operation + 24)
                continue
            store8(base + count, np.int64(1))
        elif code == Op.UNION_TAG:
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            branch = load64(stack + 8 * depth - 8)
            if branch > argument:
                branch -= 1
            store32(base + 4 * count, branch)
            store64(slot + _COUNT, count + 1)
        elif code == Op.SKIP_BRANCH:
            if load64(stack + 8 * depth - 8) != argument:
                current = load64(operation + 24)
                continue
        elif code == Op.END_UNION:
            depth -= 1
        elif code == Op.FILL:
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            if argument == 8:
                store64(base + 8 * count, np.int64(0))
            elif argument == 4:
                store32(base + 4 * count, np.int64(0))
            else:
                for byte in range(argument):
                    store8(base + argument * count + byte, np.int64(0))
            store64(slot + _COUNT, count + 1)
        elif code == Op.FILL_NULL:
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            store8(base + count, np.int64(0))
            store64(slot + _NULLS, load64(slot + _NULLS) + 1)
            store64(slot + _COUNT, count + 1)
        elif code == Op.FILL_END:
            if room < 1:
                outcome = np.int64(Outcome.NEEDS_ROOM)
                break
            # Before the first end the buffer holds a zero.
            store32(base + 4 * count, np.int64(load32(base + 4 * count - 4)))
            store64(slot + _COUNT, count + 1)
        elif code == Op.JUMP:
            current = load64(operation + 24)
            continue
        elif code == Op.SKIP_VARINTS:
            left = argument
            while left > 0 and place < end:
                if load8(place) < 0x80:
                    left -= 1
                place += 1
            if left > 0:
                outcome = np.int64(Outcome.TRUNCATED)
                break
        elif code == Op.SKIP_BYTES:
            if end - place < argument:
                outcome = np.int64(Outcome.TRUNCATED)
                break
            place += argument
        elif code == Op.CALL:
            if depth >= max_depth:
                outcome = np.int64(Outcome.NEEDS_STACK)
                break
            store64(stack + 8 * depth, current + 1)
            depth += 1
            current = load64(operation + 24)
            continue
        else:  # RETURN
            depth -= 1
            current = load64(stack + 8 * depth)
            continue
        current += 1
    store64(state + _PLACE, place)
    store64(state + _ROW, row)
    store64(state + _OPERATION, current)
    store64(state + _DEPTH, depth)
    store64(state + _SLOT, (slot - slots) // _SLOT_BYTES if outcome == Outcome.NEEDS_ROOM else np.int64(0))
    store64(state + _NEED, need)
    return outcome
