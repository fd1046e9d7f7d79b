"""The life of a file that is written from Arrow batches, whatever its bytes are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Literal, Protocol, Self

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.evolve import compile_evolution
from formatkit.batches.arrow.required import RequiredCheck
from formatkit.contract.options import WriteOptions
from formatkit.contract.results import WriteResult
from formatkit.contract.storage import ByteSink, SinkStream
from formatkit.errors import FormatkitError, InvalidDataError, enough_memory

__all__ = ["ArrowFileWriter", "BatchEncoder", "EncoderOutput", "FileWriterLife"]


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


class FileWriterLife(ABC):
    """Open, and then closed or aborted, once: what all writers of files have in common (clauses W3 and W4)."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._state: Literal["open", "closed", "aborted"] = "open"
        self._result: WriteResult | None = None

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
            self._give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    @abstractmethod
    def _finish(self) -> WriteResult | None:
        """Complete and publish the file; without rows give it up and return None."""

    @abstractmethod
    def _give_up(self) -> None:
        """Leave nothing behind."""

    def _require_open(self, action: str) -> None:
        if self._state != "open":
            raise FormatkitError(f"the writer of {self._location} was {self._state} and cannot be {action}")

    @contextmanager
    def _invalid_data(self) -> Iterator[None]:
        """Say of Arrow's errors which file they are about."""
        try:
            with enough_memory(self._location):
                yield
        except pa.ArrowException as error:
            message = f"a batch cannot be written to {self._location}: {error}"
            raise InvalidDataError(message, location=self._location) from error


class ArrowFileWriter(FileWriterLife):
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
        super().__init__(sink.location)
        self._output = output
        self._encoder = encoder
        self._to_stored = compile_evolution(options.schema, stored, {})
        self._check_required = RequiredCheck(stored.fields)
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._require_open("written to")
        with self._invalid_data():
            batch = self._to_stored(batch)
            self._check_required(batch, self._rows)
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

    def _finish(self) -> WriteResult | None:
        if self._rows == 0:
            self._output.abort()
            return None
        split_offsets = self._encoder.finish()
        size = self._output.tell()
        self._output.publish()
        return WriteResult(location=self._location, size_bytes=size, row_count=self._rows, split_offsets=split_offsets)

    def _give_up(self) -> None:
        self._output.abort()
