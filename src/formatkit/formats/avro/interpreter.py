"""Runs programs in Python: for files so small that loading compiled code would take longer than decoding them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct

import pyarrow as pa

from formatkit.formats.avro.failures import BlockError, UnfitValueError
from formatkit.formats.avro.kernels.opcodes import ANY_WIDTH, VARINT_WIDTH, Op, Outcome
from formatkit.formats.avro.program import Program
from formatkit.formats.avro.slots import MAX_COUNT, Filled

__all__ = ["Interpreter"]

_LONG = Struct("<q")
_INT = Struct("<i")
_FULL_BYTES = 16 * 1024 * 1024
_DEEPEST = 1 << 20
_HYPHENS = (8, 13, 18, 23)
_HEX = frozenset(b"0123456789abcdefABCDEF")

_Step = Callable[[int, int, int], "int | None"]


class _StopError(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class Interpreter:
    """Decodes blocks into the slots of one batch after another, like the compiled runner."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._operations = program.operations.tolist()
        self._stack: list[int] = []
        self._current = 0
        self._payload = memoryview(b"")
        self._place = self._end = 0
        self._steps: dict[int, _Step] = {op: getattr(self, f"_{op.name.lower()}") for op in Op if op is not Op.END_ROW}
        self._begin_batch()

    def load(self, payload: memoryview) -> None:
        """Take the rows of another block from here on."""
        self._payload, self._place, self._end = payload, 0, len(payload)

    @property
    def left(self) -> int:
        """How many bytes of the block were not read."""
        return self._end - self._place

    @property
    def full(self) -> bool:
        """Whether the batch should end with the current row, however few rows it has."""
        return sum(map(len, self._data)) > _FULL_BYTES

    def run(self, rows: int) -> int:
        """Decode so many rows, or fewer if the batch is large by then; how many they were."""
        try:
            for row in range(rows):
                self._row()
                if row % 64 == 63 and self.full:
                    return row + 1
        except _StopError as stop:
            column = self._program.columns[self._current]
            error = UnfitValueError if stop.outcome is Outcome.WIDE_DECIMAL else BlockError
            raise error(f"column {column!r}: {stop.outcome.reason}") from None
        return rows

    def finish(self) -> Sequence[Filled]:
        """What the slots hold; they are empty again afterwards."""
        filled = [
            Filled(buffer=pa.py_buffer(data), count=len(data) // kind.width if kind.width else count, nulls=nulls)
            for kind, data, count, nulls in zip(self._program.slots, self._data, self._counts, self._nulls, strict=True)
        ]
        self._begin_batch()
        return filled

    def _begin_batch(self) -> None:
        self._data = [bytearray(4 if kind.ends else 0) for kind in self._program.slots]
        self._counts = [0] * len(self._data)
        self._nulls = [0] * len(self._data)

    def _row(self) -> None:
        self._current = 0
        while True:
            code, slot, argument, jump = self._operations[self._current]
            if code == Op.END_ROW:
                return
            go_to = self._steps[code](slot, argument, jump)
            self._current = self._current + 1 if go_to is None else go_to

    # Reading.

    def _varint(self) -> int:
        bits = shift = 0
        while True:
            if self._place >= self._end:
                raise _StopError(Outcome.TRUNCATED)
            byte = self._payload[self._place]
            self._place += 1
            if shift == 63 and byte > 1:
                raise _StopError(Outcome.LONG_VARINT)
            bits |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (bits >> 1) ^ -(bits & 1)
            shift += 7

    def _take(self, length: int) -> memoryview:
        if length < 0:
            raise _StopError(Outcome.NEGATIVE_LENGTH)
        if length > self._end - self._place:
            raise _StopError(Outcome.TRUNCATED)
        self._place += length
        return self._payload[self._place - length : self._place]

    # Decoding: what `Op` says of each.

    def _long(self, slot: int, _argument: int, _jump: int) -> None:
        self._data[slot] += _LONG.pack(self._varint())

    def _int(self, slot: int, _argument: int, _jump: int) -> None:
        self._data[slot] += _INT.pack(self._in_range(self._varint(), 31))

    def _scaled(self, slot: int, argument: int, _jump: int) -> None:
        self._data[slot] += _LONG.pack(self._in_range(self._varint() * argument, 63))

    def _in_range(self, value: int, bits: int) -> int:
        if not -(1 << bits) <= value < 1 << bits:
            raise _StopError(Outcome.OUT_OF_RANGE)
        return value

    def _symbol(self, slot: int, argument: int, _jump: int) -> None:
        if not 0 <= (value := self._varint()) < argument:
            raise _StopError(Outcome.WRONG_SYMBOL)
        self._data[slot] += _INT.pack(value)

    def _bytes(self, slot: int, argument: int, _jump: int) -> None:
        self._data[slot] += self._take(self._varint())
        self._data[argument] += _INT.pack(len(self._data[slot]))

    def _decimal_bytes(self, slot: int, _argument: int, _jump: int) -> None:
        self._append_decimal(slot, self._take(self._varint()))

    def _decimal_fixed(self, slot: int, argument: int, _jump: int) -> None:
        self._append_decimal(slot, self._take(argument))

    def _append_decimal(self, slot: int, digits: memoryview) -> None:
        number = int.from_bytes(digits, "big", signed=True)
        if not -(1 << 127) <= number < 1 << 127:
            raise _StopError(Outcome.WIDE_DECIMAL)
        self._data[slot] += number.to_bytes(16, "little", signed=True)

    def _uuid_text(self, slot: int, _argument: int, _jump: int) -> None:
        if (length := self._varint()) != 36:
            raise _StopError(Outcome.WRONG_UUID)
        text = bytes(self._take(length))
        digits = bytes(character for place, character in enumerate(text) if place not in _HYPHENS)
        if not _HEX.issuperset(digits) or any(text[place] != ord("-") for place in _HYPHENS):
            raise _StopError(Outcome.WRONG_UUID)
        self._data[slot] += bytes.fromhex(digits.decode())

    def _boolean(self, slot: int, _argument: int, _jump: int) -> None:
        if (value := self._take(1))[0] > 1:
            raise _StopError(Outcome.WRONG_BOOLEAN)
        self._data[slot] += value

    def _four(self, slot: int, _argument: int, _jump: int) -> None:
        self._data[slot] += self._take(4)

    def _eight(self, slot: int, _argument: int, _jump: int) -> None:
        self._data[slot] += self._take(8)

    def _fixed(self, slot: int, argument: int, _jump: int) -> None:
        self._data[slot] += self._take(argument)

    def _option(self, slot: int, argument: int, jump: int) -> int | None:
        return self._append_validity(slot, self._branch(2) != argument, jump)

    def _only_branch(self, _slot: int, _argument: int, _jump: int) -> None:
        self._branch(1)

    def _branch(self, branches: int) -> int:
        if not 0 <= (value := self._varint()) < branches:
            raise _StopError(Outcome.WRONG_BRANCH)
        return value

    def _block(self, slot: int, argument: int, jump: int) -> int | None:
        if not (elements := self._begin_block()):
            self._data[slot] += _INT.pack(self._counts[argument])
            return jump
        self._push(elements)
        return None

    def _empty_block(self, slot: int, argument: int, jump: int) -> int | None:
        if not (elements := self._begin_block()):
            self._data[slot] += _INT.pack(self._counts[argument])
            return jump
        self._count(argument, elements)
        return self._current

    def _begin_block(self) -> int:
        elements = self._varint()
        if elements < 0:
            elements = -elements
            if self._varint() < 0 or elements >= 1 << 63:
                raise _StopError(Outcome.NEGATIVE_LENGTH)
        return elements

    def _count(self, counter: int, elements: int) -> None:
        self._counts[counter] += elements
        if self._counts[counter] > MAX_COUNT:
            raise BlockError(f"one batch would hold more than {MAX_COUNT} elements")

    def _push(self, value: int) -> None:
        if len(self._stack) >= _DEEPEST:
            raise BlockError(f"its values are nested more than {_DEEPEST} levels deep")
        self._stack.append(value)

    def _next(self, _slot: int, argument: int, jump: int) -> int:
        self._count(argument, 1)
        return self._skip_next(0, 0, jump)

    def _fill(self, slot: int, argument: int, _jump: int) -> None:
        self._data[slot] += bytes(argument)

    def _fill_null(self, slot: int, _argument: int, _jump: int) -> None:
        self._data[slot].append(0)
        self._nulls[slot] += 1

    def _fill_end(self, slot: int, _argument: int, _jump: int) -> None:
        self._data[slot] += self._data[slot][-4:]

    # Unions of several types: the branch is on the stack while its union is decoded.

    def _union(self, _slot: int, argument: int, _jump: int) -> None:
        self._push(self._branch(argument))

    def _union_option(self, slot: int, argument: int, jump: int) -> int | None:
        return self._append_validity(slot, self._stack[-1] != argument, jump)

    def _union_branch(self, slot: int, argument: int, jump: int) -> int | None:
        return self._append_validity(slot, self._stack[-1] == argument, jump)

    def _append_validity(self, slot: int, is_valid: bool, jump: int) -> int | None:
        if is_valid:
            self._data[slot].append(1)
            return None
        self._fill_null(slot, 0, 0)
        return jump

    def _union_tag(self, slot: int, argument: int, _jump: int) -> None:
        branch = self._stack[-1]
        self._data[slot] += _INT.pack(branch - (branch > argument))

    def _skip_branch(self, _slot: int, argument: int, jump: int) -> int | None:
        return None if self._stack[-1] == argument else jump

    def _end_union(self, _slot: int, _argument: int, _jump: int) -> None:
        self._stack.pop()

    # Passing over.

    def _skip_sized(self, _slot: int, _argument: int, _jump: int) -> None:
        self._take(self._varint())

    def _skip_bytes(self, _slot: int, argument: int, _jump: int) -> None:
        self._take(argument)

    def _skip_varints(self, _slot: int, argument: int, _jump: int) -> None:
        for _ in range(argument):
            while self._take(1)[0] >= 0x80:
                pass

    def _skip_option(self, _slot: int, argument: int, jump: int) -> int | None:
        return jump if self._branch(2) == argument else None

    def _skip_block(self, _slot: int, argument: int, jump: int) -> int | None:
        elements = self._varint()
        if not elements:
            return jump
        if elements < 0:
            self._take(self._varint())
        elif argument == ANY_WIDTH:
            self._push(elements)
            return None
        elif argument == VARINT_WIDTH:
            self._skip_varints(0, elements, 0)
        else:
            self._take(elements * argument)
        return self._current

    def _skip_next(self, _slot: int, _argument: int, jump: int) -> int:
        self._stack[-1] -= 1
        if self._stack[-1]:
            return jump + 1
        self._stack.pop()
        return jump

    def _switch(self, _slot: int, argument: int, _jump: int) -> int:
        return self._current + 1 + self._branch(argument)

    def _jump(self, _slot: int, _argument: int, jump: int) -> int:
        return jump

    def _call(self, _slot: int, _argument: int, jump: int) -> int:
        self._push(self._current + 1)
        return jump

    def _return(self, _slot: int, _argument: int, _jump: int) -> int:
        return self._stack.pop()
