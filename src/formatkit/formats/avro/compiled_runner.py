"""Runs programs with the compiled kernel, into buffers that grow as they fill."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from formatkit.batches.compiled.loading import kernels
from formatkit.formats.avro.failures import BlockError, UnfitValueError
from formatkit.formats.avro.kernels.opcodes import Outcome
from formatkit.formats.avro.program import Program
from formatkit.formats.avro.slots import MAX_COUNT, Filled, Slot

__all__ = ["KERNELS", "CompiledRunner"]

KERNELS = "formatkit.formats.avro.kernels"

_PLACE, _END, _ROW, _LAST_ROW, _OPERATION, _DEPTH, _MAX_DEPTH, _SLOT, _NEED = range(9)
_BASE, _COUNT, _CAPACITY, _NULLS = range(4)
_FIRST_BYTES = 8 * 1024
_FULL_BYTES = 64 * 1024 * 1024
_DEEPEST = 1 << 20


class CompiledRunner:
    """Decodes blocks into the slots of one batch after another."""

    def __init__(self, program: Program) -> None:
        self._decode = kernels(KERNELS).decode
        self._program = program
        self._state = np.zeros(9, np.int64)
        self._slots = np.zeros((max(1, len(program.slots)), 4), np.int64)
        self._stack = np.zeros(64, np.int64)
        self._sizes = [_FIRST_BYTES * min(1, slot.width) for slot in program.slots]
        self._payload: pa.Buffer | None = None
        self._begin_batch()

    def load(self, payload: memoryview) -> None:
        """Take the rows of another block from here on."""
        self._payload = pa.py_buffer(payload)
        self._state[_PLACE] = self._payload.address
        self._state[_END] = self._payload.address + self._payload.size

    @property
    def left(self) -> int:
        """How many bytes of the block were not read."""
        return int(self._state[_END] - self._state[_PLACE])

    def run(self, rows: int) -> int:
        """Decode so many rows, or fewer if the batch is large by then; how many they were."""
        state = self._state
        state[_ROW], state[_LAST_ROW] = 0, rows
        while True:
            state[_MAX_DEPTH] = len(self._stack)
            outcome = self._decode(
                state.ctypes.data,
                self._program.operations.ctypes.data,
                self._slots.ctypes.data,
                self._stack.ctypes.data,
            )
            if outcome == Outcome.DONE:
                return int(state[_ROW])
            if outcome == Outcome.NEEDS_ROOM:
                self._grow(int(state[_SLOT]), int(state[_NEED]))
                if self.full:
                    state[_LAST_ROW] = state[_ROW] + 1
            elif outcome == Outcome.NEEDS_STACK:
                self._deepen()
            else:
                error = UnfitValueError if outcome == Outcome.WIDE_DECIMAL else BlockError
                raise error(self._described(Outcome(outcome).reason))

    @property
    def full(self) -> bool:
        """Whether the batch should end with the current row, however few rows it has."""
        return self._bytes > _FULL_BYTES

    def finish(self) -> Sequence[Filled]:
        """What the slots hold; they are empty again afterwards."""
        kinds = self._program.slots
        filled = [
            Filled(buffer=buffer, count=int(slot[_COUNT]), nulls=int(slot[_NULLS]))
            for buffer, slot in zip(self._buffers, self._slots, strict=False)
        ]
        # The next batch is most likely as large.
        self._sizes = [
            max(_FIRST_BYTES, (each.count + each.count // 8) * kind.width) if kind.width else 0
            for each, kind in zip(filled, kinds, strict=True)
        ]
        self._begin_batch()
        return filled

    def _begin_batch(self) -> None:
        self._buffers = [pa.allocate_buffer(size, None, True) for size in self._sizes]
        self._bytes = sum(self._sizes)
        self._slots[:] = 0
        for index, kind in enumerate(self._program.slots):
            if kind.ends:
                memoryview(self._buffers[index]).cast("B")[:4] = bytes(4)
            self._describe(index, kind)

    def _describe(self, index: int, kind: Slot) -> None:
        """Tell the kernel where a buffer is and how much it holds."""
        buffer, head = self._buffers[index], 4 if kind.ends else 0
        self._slots[index, _BASE] = buffer.address + head
        self._slots[index, _CAPACITY] = min(MAX_COUNT, (buffer.size - head) // kind.width) if kind.width else MAX_COUNT

    def _grow(self, index: int, need: int) -> None:
        kind, buffer = self._program.slots[index], self._buffers[index]
        wanted = int(self._slots[index, _COUNT]) + max(1, need)
        if wanted > MAX_COUNT:
            raise BlockError(self._described(f"one batch would hold more than {MAX_COUNT} bytes or elements"))
        size = max(2 * buffer.size, (wanted + 1) * kind.width)
        self._bytes += size - buffer.size
        buffer.resize(size)
        self._describe(index, kind)

    def _deepen(self) -> None:
        if len(self._stack) >= _DEEPEST:
            raise BlockError(self._described(f"its values are nested more than {_DEEPEST} levels deep"))
        self._stack = np.concatenate([self._stack, np.zeros_like(self._stack)])

    def _described(self, reason: str) -> str:
        return f"column {self._program.columns[self._state[_OPERATION]]!r}: {reason}"
