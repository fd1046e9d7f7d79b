"""The life of a file that is written from Arrow batches, whatever its bytes are."""

from __future__ import annotations

from types import TracebackType
from typing import Literal, Protocol

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.evolve import compile_evolution
from formatkit.batches.arrow.required import RequiredCheck
from formatkit.contract.options import WriteOptions
from formatkit.contract.results import WriteResult
from formatkit.contract.storage import ByteSink, SinkStream
from formatkit.errors import FormatkitError, InvalidDataError

__all__ = ["ArrowFileWriter", "BatchEncoder", "EncoderOutput"]


class BatchEncoder(Protocol):
    """Turns batches into the bytes of one file, which it writes to an `EncoderOutput`."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode a batch that has rows, in the canonical form of the stored schema."""
        ...

    def finish(self) -> tuple[int, ...] | None:
        """Write what comes last; returns the split offsets if the format has any."""
        ...


class EncoderOutput:
    """The file object that an encoder writes to. Only the writer may publish the file.

    Codec libraries close their output, and some write a footer, when they are dropped after a failure.
    """

    def __init__(self, stream: SinkStream) -> None:
        self._stream = stream
        self._size = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        if not self.closed:
            self._stream.write(data)
            self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Bytes reach the storage when the file is published."""

    def close(self) -> None:
        """The writer closes."""

    def publish(self) -> None:
        self.closed = True
        self._stream.close()

    def abort(self) -> None:
        self.closed = True
        self._stream.abort()


class ArrowFileWriter:
    """A `FormatFileWriter` around an encoder: clauses W2 to W4, and nulls in required columns refused.

    Args:
        output: Where the encoder writes to.
        encoder: Makes the bytes.
        stored: The part of the schema that the encoder stores, `without_unknown` at most.
        sink: Where the file will be.
        options: What was asked for.
    """

    def __init__(
        self, output: EncoderOutput, encoder: BatchEncoder, stored: Schema, sink: ByteSink, options: WriteOptions
    ) -> None:
        self._output = output
        self._encoder = encoder
        self._location = sink.location
        self._to_stored = compile_evolution(options.schema, stored, {})
        self._check_required = RequiredCheck(stored.fields)
        self._rows = 0
        self._state: Literal["open", "closed", "aborted"] = "open"
        self._result: WriteResult | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self._require_open("written to")
        try:
            batch = self._to_stored(batch)
            self._check_required(batch, self._rows)
        except pa.ArrowException as error:
            message = f"a batch cannot be written to {self._location}: {error}"
            raise InvalidDataError(message, location=self._location) from error
        if batch.num_rows == 0:
            return
        try:
            self._encoder.write(batch)
        except BaseException:
            # Nobody knows which of its bytes are in the file by now.
            self.abort()
            raise
        self._rows += batch.num_rows

    def bytes_written(self) -> int:
        return self._output.tell()

    def close(self) -> WriteResult | None:
        if self._state == "closed":
            return self._result
        self._require_open("closed")
        try:
            self._result = self._finish()
        except BaseException:
            self.abort()
            raise
        self._state = "closed"
        return self._result

    def abort(self) -> None:
        if self._state == "open":
            self._state = "aborted"
            self._output.abort()

    def __enter__(self) -> ArrowFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def _finish(self) -> WriteResult | None:
        if self._rows == 0:
            self._output.abort()
            return None
        split_offsets = self._encoder.finish()
        size = self._output.tell()
        self._output.publish()
        return WriteResult(location=self._location, size_bytes=size, row_count=self._rows, split_offsets=split_offsets)

    def _require_open(self, action: str) -> None:
        if self._state != "open":
            raise FormatkitError(f"the writer of {self._location} was {self._state} and cannot be {action}")
