"""From stored blocks to batches: decompresses, runs the program and cuts where a batch is full."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from formatkit.batches.compiled.loading import Payback
from formatkit.errors import InvalidDataError
from formatkit.formats.avro.ahead import ahead
from formatkit.formats.avro.codecs import decompress
from formatkit.formats.avro.compiled_runner import KERNELS, CompiledRunner
from formatkit.formats.avro.container import Block
from formatkit.formats.avro.failures import BlockError, LongBlockError, UnfitValueError, corrupt
from formatkit.formats.avro.interpreter import Interpreter
from formatkit.formats.avro.program import Program
from formatkit.formats.avro.slots import Filled

__all__ = ["Decoding"]

# The first use of compiled code takes about as long as decoding a megabyte in Python.
_compiled_pays = Payback(KERNELS, 1024 * 1024)
_SLOW_CODECS = frozenset({"bzip2", "xz"})
_BLOCKS_AHEAD = 2


class _Runner(Protocol):
    """What runs a program; see `CompiledRunner`."""

    @property
    def left(self) -> int: ...

    @property
    def full(self) -> bool: ...

    def load(self, payload: memoryview) -> None: ...

    def run(self, rows: int) -> int: ...

    def finish(self) -> Sequence[Filled]: ...


@dataclass(kw_only=True)
class Decoding:
    """One read of a file.

    Attributes:
        location: The file, for messages.
        codec: How its blocks are compressed.
        program: How to decode their rows.
        schema: The schema of the batches, which ends with `_pos` if `positions` is set.
        positions: Whether to add the ordinals of the rows.
        batch_rows: The most rows of a batch.
        block_limit: The most bytes that a block may have once decompressed.
        decoder: How to run the program, compiled or interpreted; None for what is faster.
        counters: What was done, for explaining it.
    """

    location: str
    codec: str
    program: Program
    schema: pa.Schema
    positions: bool
    batch_rows: int
    block_limit: int
    decoder: str | None
    counters: MutableMapping[str, Any]

    def batches(self, blocks: Iterator[Block], first_row: int) -> Iterator[pa.RecordBatch]:
        """The rows of the blocks; the first of them has the ordinal `first_row`."""
        self.counters.update(blocks=0, rows=0)
        if self.program.decodes:
            yield from self._decode(blocks, first_row)
        else:
            yield from self._count(blocks, first_row)

    def _decode(self, blocks: Iterator[Block], row: int) -> Iterator[pa.RecordBatch]:
        runner, rows = self._runner(), 0
        # Some writers end with a block of nothing, which not every codec could decompress.
        filled_blocks = (block for block in blocks if block.rows or block.payload)
        for block, payload in self._decompressed(filled_blocks):
            self.counters["blocks"] += 1
            if isinstance(runner, Interpreter) and self._is_compiled(len(payload)):
                if rows:
                    yield self._batch(runner, rows, row)
                    row, rows = row + rows, 0
                runner = self._runner()
            runner.load(payload)
            left = block.rows
            while left:
                decoded = self._run(runner, min(left, self.batch_rows - rows), block, block.rows - left)
                left -= decoded
                rows += decoded
                if rows == self.batch_rows or runner.full:
                    yield self._batch(runner, rows, row)
                    row, rows = row + rows, 0
            if runner.left:
                raise self._corrupt(block, f"{runner.left} bytes follow its last row")
        if rows:
            yield self._batch(runner, rows, row)

    def _runner(self) -> _Runner:
        compiled = self._is_compiled()
        self.counters["decoder"] = "compiled" if compiled else "interpreted"
        return CompiledRunner(self.program) if compiled else Interpreter(self.program)

    def _is_compiled(self, about_to_decode: int = 0) -> bool:
        if self.decoder is not None:
            return self.decoder == "compiled"
        return _compiled_pays.reached(about_to_decode)

    def _decompressed(self, blocks: Iterator[Block]) -> Iterator[tuple[Block, memoryview]]:
        """The blocks with their contents; where decompressing takes long, further ones are begun meanwhile."""
        if self.codec in _SLOW_CODECS and (first := next(blocks, None)) is not None:
            yield first, self._content(first)
            with closing(ahead(self._content, blocks, _BLOCKS_AHEAD)) as found:
                yield from found
        else:
            for block in blocks:
                yield block, self._content(block)

    def _content(self, block: Block) -> memoryview:
        try:
            content = decompress(self.codec, block.payload, self.block_limit)
        except LongBlockError as error:
            message = f"{error}; if the file is sound, raise the property read.avro.max-block-bytes"
            raise self._corrupt(block, message) from error
        except BlockError as error:
            raise self._corrupt(block, str(error)) from error
        if block.rows * self.program.least_row > len(content):
            raise self._corrupt(
                block, f"it has {len(content)} bytes, too few for the {block.rows} rows that it promises"
            )
        return content

    def _run(self, runner: _Runner, rows: int, block: Block, done: int) -> int:
        try:
            return runner.run(rows)
        except BlockError as error:
            raise self._corrupt(block, f"behind row {done} of it, {error}") from error
        except UnfitValueError as error:
            raise self._unfit(str(error)) from error

    def _batch(self, runner: _Runner, rows: int, first_row: int) -> pa.RecordBatch:
        filled = runner.finish()
        columns = []
        for place, output in enumerate(self.program.outputs):
            try:
                column = output.column(filled, rows)
            except BlockError as error:
                message = f"in the rows from {first_row} to {first_row + rows}, {error}"
                raise corrupt(self.location, message) from error
            except UnfitValueError as error:
                raise self._unfit(f"column {self.schema.names[place]!r} {error}") from error
            columns.append(column)
        return self._assembled(columns, rows, first_row)

    def _assembled(self, columns: list[Any], rows: int, first_row: int) -> pa.RecordBatch:
        self.counters["rows"] += rows
        if self.positions:
            columns.append(pa.array(np.arange(first_row, first_row + rows, dtype=np.int64)))
        if not columns:
            # Only a batch that once had a column remembers how many rows it has.
            return pa.record_batch([pa.nulls(rows)], names=[""]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _count(self, blocks: Iterator[Block], row: int) -> Iterator[pa.RecordBatch]:
        """Batches without stored columns: the headers of blocks say how many rows there are."""
        left = 0
        for block in blocks:
            most = self.block_limit if self.codec != "null" else max(len(block.payload), 1 << 31)
            if block.rows * max(1, self.program.least_row) > most:
                raise self._corrupt(block, f"it cannot hold the {block.rows} rows that it promises")
            self.counters["blocks"] += 1
            left += block.rows
            while left >= self.batch_rows:
                yield self._nulls(self.batch_rows, row)
                row, left = row + self.batch_rows, left - self.batch_rows
        if left:
            yield self._nulls(left, row)

    def _nulls(self, rows: int, first_row: int) -> pa.RecordBatch:
        return self._assembled([output.column((), rows) for output in self.program.outputs], rows, first_row)

    def _unfit(self, what: str) -> InvalidDataError:
        message = (
            f"{self.location}: {what}; leave the column out, or let its writer declare the type that its values need"
        )
        return InvalidDataError(message, location=self.location)

    def _corrupt(self, block: Block, what: str) -> Exception:
        return corrupt(self.location, f"the block at byte {block.offset}: {what}")
