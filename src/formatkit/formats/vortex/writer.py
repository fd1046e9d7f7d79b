"""Writes Vortex files, with the seal that gives ids and key-value pairs a home.

Vortex pulls batches and writes to a path. Batches are therefore staged as an Arrow stream on disk until the last one is
there; then Vortex reads them and writes a second temporary file, from which the bytes go to the sink. Handing batches
over as they come, to Vortex in a thread of its own, would hang: whichever thread calls Vortex may be made to run what
another call waits for, and a thread that waits for batches from itself waits for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
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
from formatkit.errors import ConfigurationError, InvalidDataError, UnsupportedError
from formatkit.formats.vortex.decoding import RowRange
from formatkit.formats.vortex.failures import reason
from formatkit.formats.vortex.reader import split_offsets
from formatkit.formats.vortex.schema import METADATA, SCHEMA, encoded_schema
from formatkit.formats.vortex.source_reads import tail_length

__all__ = ["VortexWriter"]

NATIVE_TIMESTAMPS = "write.vortex.native-timestamps"

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
    """Stages batches, and lets Vortex write them at the end."""

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
        self._batches = output.folder / "batches.arrows"
        output.expected_bytes, output.cancel = self.expected_bytes, self._close
        self._fields = fields
        self._schema = schema
        self._facts = facts
        self._location = location
        self._file: pa.NativeFile | None = None
        self._stage: pa.RecordBatchStreamWriter | None = None
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
        if self._stage is None:
            self._file = pa.OSFile(str(self._batches), "wb")
            self._stage = pa.ipc.new_stream(self._file, self._schema)
            self._sample = batch.slice(0, _SAMPLE_ROWS)
        self._raw_bytes += batch.nbytes
        self._stage.write_batch(batch)

    def finish(self) -> tuple[int, ...]:
        self._close()
        with pa.OSFile(str(self._batches), "rb") as file, pa.ipc.open_stream(file) as batches:
            self._encode(batches, self._path)
        chunks = [RowRange(*split) for split in vx.open(str(self._path)).splits()]
        self._output.copy_sealed(self._path, tail_length, self._facts)
        return split_offsets(chunks, self._output.tell())

    def expected_bytes(self) -> int:
        """About how long the file will be; Vortex writes nothing before the end."""
        if self._sample is not None:
            path = self._path.with_suffix(".sample")
            self._encode(pa.Table.from_batches([self._sample]), path)
            self._ratio = min(1.0, path.stat().st_size / max(self._sample.nbytes, 1))
            self._sample = None
        return int(self._raw_bytes * self._ratio)

    def _encode(self, batches: pa.RecordBatchReader | pa.Table, path: Path) -> None:
        try:
            vx.io.write(batches, str(path))
        except BaseException as error:  # panics of Rust are no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            message = f"a batch cannot be written to {self._location}: {reason(error)}"
            raise InvalidDataError(message, location=self._location) from error

    def _close(self) -> None:
        """End the staged stream; may be called twice."""
        stage, file, self._stage, self._file = self._stage, self._file, None, None
        if stage is not None:
            stage.close()
        if file is not None:
            file.close()


def _is_set(properties: Mapping[str, str], key: str) -> bool:
    word = properties.get(key, "false").lower()
    if word not in ("true", "false"):
        raise ConfigurationError(f"{key} is {word!r}; it can be: true, false")
    return word == "true"
