"""Writes Vortex files, with the seal that gives ids and key-value pairs a home.

Vortex pulls batches and writes to a path, so it runs in a thread of its own and writes to a temporary file, from which
the bytes go to the sink. It keeps what it encoded in memory until the last batch is there.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import vortex as vx
from pyiceberg.types import NestedField

from formatkit.batches.arrow.file_schema import without_unknown
from formatkit.batches.arrow.file_writing import ArrowFileWriter
from formatkit.batches.arrow.forms import without_offsets
from formatkit.batches.arrow.required import without_hidden_nulls
from formatkit.batches.arrow.staging import StagedOutput
from formatkit.contract.options import WriteOptions
from formatkit.contract.schema_json import schema_to_json
from formatkit.contract.storage import ByteSink
from formatkit.errors import ConfigurationError, FormatkitError, InternalError, InvalidDataError, UnsupportedError
from formatkit.formats.vortex.decoding import RowRange
from formatkit.formats.vortex.failures import reason
from formatkit.formats.vortex.reader import split_offsets
from formatkit.formats.vortex.schema import METADATA, SCHEMA, encoded_schema
from formatkit.formats.vortex.source_reads import tail_length

__all__ = ["VortexWriter"]

NATIVE_TIMESTAMPS = "write.vortex.native-timestamps"

_WAITING_BATCHES = 2
_SAMPLE_ROWS = 32_768


class VortexWriter:
    """Creates Vortex files from Arrow batches.

    Property: ``write.vortex.native-timestamps`` (true or false, the default; see `formatkit.formats.vortex.schema`).
    """

    def open(self, sink: ByteSink, options: WriteOptions) -> ArrowFileWriter:
        if options.encryption is not None:
            raise UnsupportedError(f"{sink.location}: Vortex files cannot be encrypted", location=sink.location)
        stored = without_unknown(options.schema)
        if not stored.fields:
            message = f"{sink.location}: the schema has no column that Vortex can store; it needs one of a known type"
            raise UnsupportedError(message, location=sink.location)
        facts = {SCHEMA: schema_to_json(stored), METADATA: dict(options.metadata)}
        schema = encoded_schema(stored, native_timestamps=_is_set(options.properties, NATIVE_TIMESTAMPS))
        output = StagedOutput(sink.create(overwrite=options.overwrite))
        try:
            encoder = _Encoder(output, stored.fields, schema, facts, sink.location)
            return ArrowFileWriter(output, encoder, stored, sink, options)
        except BaseException:
            output.abort()
            raise


class _Encoder:
    """Feeds Vortex's writer, which runs in a thread."""

    def __init__(
        self,
        output: StagedOutput,
        fields: Sequence[NestedField],
        schema: pa.Schema,
        facts: Mapping[str, Any],
        location: str,
    ) -> None:
        self._output = output
        self._path = output.folder / "staged.vortex"
        output.expected_bytes, output.cancel = self.expected_bytes, self.cancel
        self._fields = fields
        self._schema = schema
        self._facts = facts
        self._location = location
        self._waiting: queue.Queue[pa.RecordBatch | FormatkitError | None] = queue.Queue(_WAITING_BATCHES)
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._raw_bytes = 0
        self._sample: pa.RecordBatch | None = None
        self._ratio = 1.0

    def write(self, batch: pa.RecordBatch) -> None:
        batch = without_hidden_nulls(batch, self._fields)
        columns: list[Any] = [
            without_offsets(column if column.type == field.type else column.cast(field.type))
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="formatkit-vortex-writer", daemon=True)
            self._thread.start()
            self._sample = batch.slice(0, _SAMPLE_ROWS)
        self._raw_bytes += batch.nbytes
        self._put(batch)

    def finish(self) -> tuple[int, ...]:
        self._put(None)
        self._join()
        chunks = [RowRange(*split) for split in vx.open(str(self._path)).splits()]
        self._output.copy_sealed(self._path, tail_length, self._facts)
        return split_offsets(chunks, self._output.tell())

    def cancel(self) -> None:
        """Let Vortex fail, and wait until it has."""
        while self._thread is not None and self._thread.is_alive():
            with suppress(queue.Full):
                self._waiting.put_nowait(FormatkitError("the file was given up"))
            self._thread.join(timeout=0.1)

    def expected_bytes(self) -> int:
        """About how long the file will be; Vortex writes nothing before the end."""
        if self._sample is not None:
            self._ratio, self._sample = self._measured_ratio(self._sample), None
        return int(self._raw_bytes * self._ratio)

    def _run(self) -> None:
        try:
            vx.io.write(pa.RecordBatchReader.from_batches(self._schema, self._batches()), str(self._path))
        except BaseException as error:  # noqa: BLE001  # raised again where the batches come from
            self._failure = error

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._waiting.get()) is not None:
            if isinstance(batch, FormatkitError):
                raise batch
            yield batch

    def _put(self, batch: pa.RecordBatch | FormatkitError | None) -> None:
        while self._thread is not None and self._thread.is_alive():
            try:
                return self._waiting.put(batch, timeout=0.1)
            except queue.Full:
                continue
        self._join()
        raise InternalError(f"the writer of {self._location} ended before its last batch")

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            message = f"a batch cannot be written to {self._location}: {reason(self._failure)}"
            raise InvalidDataError(message, location=self._location) from self._failure

    def _measured_ratio(self, sample: pa.RecordBatch) -> float:
        path = self._path.with_suffix(".sample")
        vx.io.write(pa.Table.from_batches([sample]), str(path))
        return min(1.0, path.stat().st_size / max(sample.nbytes, 1))


def _is_set(properties: Mapping[str, str], key: str) -> bool:
    word = properties.get(key, "false").lower()
    if word not in ("true", "false"):
        raise ConfigurationError(f"{key} is {word!r}; it can be: true, false")
    return word == "true"
