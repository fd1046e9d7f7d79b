"""Writes Avro files as Iceberg's specification asks for them."""

from __future__ import annotations

import json

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.file_writing import ArrowFileWriter, EncoderOutput
from formatkit.contract import ByteSink, WriteOptions
from formatkit.contract.schema_json import schema_to_json
from formatkit.errors import ConfigurationError
from formatkit.formats.avro.encode import BlockEncoder
from formatkit.formats.avro.encryption import StreamCipher, encrypting_stream
from formatkit.formats.avro.write_container import ContainerOutput
from formatkit.formats.avro.write_properties import AvroProperties
from formatkit.formats.avro.write_schema import avro_schema, stored_schema

__all__ = ["AvroFileWriter", "AvroWriter"]

_RESERVED_PREFIX = "avro."


class AvroWriter:
    """Creates Avro files from Arrow batches."""

    def open(self, sink: ByteSink, options: WriteOptions) -> AvroFileWriter:
        stored = stored_schema(options.schema)
        properties = AvroProperties.parse(options.properties)
        metadata = _file_metadata(options, stored)
        rows = BlockEncoder(stored.fields, properties.block_bytes)
        cipher = None if options.encryption is None else StreamCipher(options.encryption)
        output = EncoderOutput(sink.create(overwrite=options.overwrite))
        stream = output if cipher is None else encrypting_stream(output, cipher)
        encoder = _AvroEncoder(rows, ContainerOutput(stream, metadata, properties.codec, properties.level))
        return AvroFileWriter(output, encoder, stored, sink, options)


class AvroFileWriter(ArrowFileWriter):
    """One Avro file. Rows are encoded as they come, and stored a block at a time."""

    def __init__(
        self, output: EncoderOutput, encoder: _AvroEncoder, stored: Schema, sink: ByteSink, options: WriteOptions
    ) -> None:
        super().__init__(output, encoder, stored, sink, options)
        self._avro_encoder = encoder

    def bytes_written(self) -> int:
        return super().bytes_written() + self._avro_encoder.pending_bytes

    def abort(self) -> None:
        self._avro_encoder.stop()
        super().abort()


class _AvroEncoder:
    """Turns batches into blocks and hands those that are full to the container."""

    def __init__(self, rows: BlockEncoder, container: ContainerOutput) -> None:
        self._rows = rows
        self._container = container

    @property
    def pending_bytes(self) -> int:
        return self._rows.pending_bytes + self._container.waiting_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        for block in self._rows.encode(batch):
            self._container.write(block)

    def finish(self) -> None:
        self._container.finish(self._rows.flush())

    def stop(self) -> None:
        self._container.stop()


def _file_metadata(options: WriteOptions, stored: Schema) -> dict[str, bytes]:
    for key in options.metadata:
        if key.startswith(_RESERVED_PREFIX):
            raise ConfigurationError(f"the metadata key {key!r} is reserved: Avro keeps {_RESERVED_PREFIX}* to itself")
    pairs = {
        **options.metadata,
        "iceberg.schema": schema_to_json(options.schema),
        "avro.schema": json.dumps(avro_schema(stored)),
    }
    return {key: value.encode() for key, value in pairs.items()}
