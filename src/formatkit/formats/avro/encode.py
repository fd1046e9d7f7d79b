"""Arrow batches as the bytes of Avro blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import NestedField

from formatkit.batches.compiled.loading import kernels
from formatkit.errors import InvalidDataError
from formatkit.formats.avro.encode_program import Program, list_depth
from formatkit.formats.avro.kernels import encode_codes as codes

__all__ = ["BlockEncoder", "EncodedBlock"]

_FAILURES = {
    codes.BAD_OFFSETS: "has offsets that lie outside of its values",
    codes.BAD_DECIMAL: "holds a decimal with more digits than its type allows",
}


@dataclass(frozen=True)
class EncodedBlock:
    """Rows in Avro's binary form, not compressed."""

    rows: int
    data: memoryview


class BlockEncoder:
    """Collects rows until they fill a block.

    Batches are in the canonical Arrow form of `fields`. What is null in a required field is written as if it were not.
    """

    def __init__(self, fields: Sequence[NestedField], target_bytes: int) -> None:
        self._fields = fields
        self._target = target_bytes
        # Most rows that begin below the target end in the quarter above it; for longer ones the output grows.
        self._capacity = target_bytes + target_bytes // 4 + codes.MARGIN
        self._stack = np.zeros(2 * max(1, list_depth(fields)), np.int64)
        self._output = np.empty(self._capacity, np.uint8)
        self._used = 0
        self._rows = 0
        self._run: Any = kernels("formatkit.formats.avro.kernels").encode

    @property
    def pending_bytes(self) -> int:
        """How many bytes wait for their block to become full."""
        return self._used

    def encode(self, batch: pa.RecordBatch) -> Iterator[EncodedBlock]:
        """The blocks that the batch completes. What is left waits for the next batch.

        Raises:
            InvalidDataError: The batch contradicts itself or holds a decimal that is too long for its column.
        """
        try:
            program = Program(self._fields, batch)
        except pa.ArrowInvalid as error:
            raise InvalidDataError(f"a batch contradicts itself: {error}") from error
        state = np.zeros(3, np.int64)
        while state[0] < batch.num_rows:
            before = int(state[0])
            address = self._output.ctypes.data
            status = self._run(
                program.instructions.ctypes.data,
                len(program.instructions),
                batch.num_rows,
                address + self._used,
                address + self._target,
                address + len(self._output),
                self._stack.ctypes.data,
                state.ctypes.data,
            )
            if status in _FAILURES:
                raise _failure(status, program.columns[state[2]], int(state[0]))
            self._rows += int(state[0]) - before
            self._used = int(state[1]) - address
            if status == codes.FULL:
                self._grow()
            elif self._used >= self._target:
                yield self._take()

    def flush(self) -> EncodedBlock | None:
        """What is left, as the last block."""
        return self._take() if self._rows else None

    def _take(self) -> EncodedBlock:
        block = EncodedBlock(self._rows, self._output[: self._used].data)
        # The block keeps the memory, since it may be compressed while the next one is filled.
        self._output = np.empty(self._capacity, np.uint8)
        self._used = self._rows = 0
        return block

    def _grow(self) -> None:
        grown = np.empty(2 * len(self._output), np.uint8)
        grown[: self._used] = self._output[: self._used]
        self._output = grown


def _failure(status: int, column: str, row: int) -> InvalidDataError:
    return InvalidDataError(f"column {column!r} {_FAILURES[status]}, in row {row} of the batch", column=column)
