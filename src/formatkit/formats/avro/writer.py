"""Writes Avro files as Iceberg's specification asks for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import pyarrow as pa

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.required import RequiredCheck
from formatkit.contract import ByteSink, WriteOptions, WriteResult
from formatkit.errors import ConfigurationError, FormatkitError, InvalidDataError
from formatkit.formats.avro.encode import BlockEncoder
from formatkit.formats.avro.encryption import encrypted_length, encrypting_sink
from formatkit.formats.avro.write_container import ContainerOutput
from formatkit.formats.avro.write_properties import AvroProperties
from formatkit.formats.avro.write_schema import avro_schema, stored_schema

__all__ = ["AvroFileWriter", "AvroWriter"]

_RESERVED_PREFIX = "avro."


class AvroWriter:
    """Creates Avro files from Arrow batches."""

    def open(self, sink: ByteSink, options: WriteOptions) -> AvroFileWriter:
        return AvroFileWriter(sink, options)


class AvroFileWriter:
    """One Avro file. Rows are encoded as they come, and stored a block at a time."""

    def __init__(self, sink: ByteSink, options: WriteOptions) -> None:
        stored = stored_schema(options.schema)
        properties = AvroProperties.parse(options.properties)
        metadata = _file_metadata(options, avro_schema(stored))
        self._location = sink.location
        self._encrypted = options.encryption is not None
        self._to_stored = ArrowBatch().evolve(options.schema, stored, {})
        self._check_required = RequiredCheck(stored.fields)
        self._encoder = BlockEncoder(stored.fields, properties.block_bytes)
        self._rows = 0
        self._result: WriteResult | None = None
        self._state = "open"
        if options.encryption is not None:
            sink = encrypting_sink(sink, options.encryption)
        stream = sink.create(overwrite=options.overwrite)
        self._output = ContainerOutput(stream, metadata, properties.codec, properties.level)

    def write(self, batch: pa.RecordBatch) -> None:
        self._require("open", "written to")
        with self._invalid_data():
            batch = self._to_stored(batch)
            program = self._encoder.program(batch)
            if program.doubtful:
                self._check_required(batch, self._rows)
        try:
            for block in self._encoder.encode(program):
                self._output.write(block)
        except BaseException:
            # Some rows of the batch may be in the file already.
            self.abort()
            raise
        self._rows += batch.num_rows

    def bytes_written(self) -> int:
        return self._output.tell() + self._encoder.pending_bytes

    def close(self) -> WriteResult | None:
        if self._state == "closed":
            return self._result
        self._require("open", "closed")
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

    def __enter__(self) -> AvroFileWriter:
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
        self._output.finish(self._encoder.flush())
        size = self._output.tell()
        return WriteResult(
            location=self._location,
            size_bytes=encrypted_length(size) if self._encrypted else size,
            row_count=self._rows,
        )

    def _require(self, state: str, action: str) -> None:
        if self._state != state:
            raise FormatkitError(f"the writer of {self._location} was {self._state} and cannot be {action}")

    @contextmanager
    def _invalid_data(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowException as error:
            message = f"a batch cannot be written to {self._location}: {error}"
            raise InvalidDataError(message, location=self._location) from error


def _file_metadata(options: WriteOptions, schema: dict[str, object]) -> dict[str, bytes]:
    for key in options.metadata:
        if key.startswith(_RESERVED_PREFIX):
            raise ConfigurationError(f"the metadata key {key!r} is reserved: Avro keeps {_RESERVED_PREFIX}* to itself")
    pairs = {**options.metadata, "iceberg.schema": options.schema.model_dump_json(), "avro.schema": json.dumps(schema)}
    return {key: value.encode() for key, value in pairs.items()}
