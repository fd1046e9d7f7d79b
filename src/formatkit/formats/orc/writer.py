"""Writes ORC files as Iceberg's specification asks for them, with pyarrow as the encoder."""

from __future__ import annotations

from contextlib import suppress
from typing import BinaryIO, cast

import pyarrow as pa
from pyarrow.orc import ORCWriter

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.file_writing import FileWriterLife
from formatkit.batches.arrow.required import RequiredCheck
from formatkit.contract import ByteSink, WriteOptions, WriteResult
from formatkit.errors import UnsupportedError
from formatkit.formats.orc.encoder_form import EncoderForm
from formatkit.formats.orc.encoder_output import EncoderOutput
from formatkit.formats.orc.timestamp_halves import has_timestamps, misread_timestamps
from formatkit.formats.orc.write_properties import OrcProperties
from formatkit.formats.orc.write_schema import StoredSchema, stored_schema

__all__ = ["OrcFileWriter", "OrcWriter"]

_MOST_ROWS_AT_ONCE = 128 * 1024
"""Bounds what is held until it is known to be whole stripes, however large a batch is."""

_GUESSED_RATIO = 0.5


class OrcWriter:
    """Creates ORC files from Arrow batches."""

    def open(self, sink: ByteSink, options: WriteOptions) -> OrcFileWriter:
        if options.encryption is not None:
            raise UnsupportedError(f"{sink.location}: ORC files are not encrypted", location=sink.location)
        stored = stored_schema(options.schema)
        return OrcFileWriter(sink, options, stored, OrcProperties.parse(options.properties, stored.leaves))


class OrcFileWriter(FileWriterLife):
    """One ORC file. The encoder buffers rows until they fill a stripe."""

    def __init__(self, sink: ByteSink, options: WriteOptions, stored: StoredSchema, properties: OrcProperties) -> None:
        super().__init__(sink.location)
        self._stored = stored
        self._metadata = dict(options.metadata)
        self._to_stored = ArrowBatch().evolve(options.schema, stored.schema, {})
        self._check_required = RequiredCheck(stored.schema.fields)
        self._rows = 0
        self._waiting_bytes = 0
        self._ratio = _GUESSED_RATIO
        self._properties = properties
        self._form = EncoderForm(stored.schema, frozenset())
        self._timed = [(number, field) for number, field in enumerate(stored.schema.fields) if has_timestamps(field)]
        self._encoder: ORCWriter | None = None
        stream = sink.create(overwrite=options.overwrite)
        self._output = EncoderOutput(stream, self._location, properties.codec, properties.block_bytes)

    def write(self, batch: pa.RecordBatch) -> None:
        self._require_open("written to")
        with self._invalid_data():
            batch = self._to_stored(batch)
            self._check_required(batch, self._rows)
            for start in range(0, batch.num_rows, _MOST_ROWS_AT_ONCE):
                self._encode(batch.slice(start, _MOST_ROWS_AT_ONCE))

    def bytes_written(self) -> int:
        return self._output.tell() + int(self._waiting_bytes * self._ratio)

    def _encode(self, batch: pa.RecordBatch) -> None:
        self._halve_timestamps(batch)
        if self._encoder is None:
            self._encoder = self._new_encoder()
        before = self._output.tell()
        self._encoder.write(self._form.table(batch))
        self._output.pass_on()
        self._rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if (encoded := self._output.tell() - before) > 0:
            self._ratio = encoded / self._waiting_bytes
            self._waiting_bytes = 0

    def _halve_timestamps(self, batch: pa.RecordBatch) -> None:
        """Let another encoder go on if timestamps come that the one so far would store in a form of its own."""
        columns = ((batch.column(number), field) for number, field in self._timed)
        halved = self._form.halved.union(*(misread_timestamps(*column) for column in columns))
        if halved != self._form.halved:
            self._end_encoder()
            self._form = EncoderForm(self._stored.schema, halved)

    def _new_encoder(self) -> ORCWriter:
        self._output.begin(self._form.types)
        bloom_filters = self._form.bloom_filters(self._properties.bloom_filter_types)
        return ORCWriter(cast("BinaryIO", self._output), **self._properties.encoder_options(bloom_filters))

    def _end_encoder(self) -> None:
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            encoder.close()
            self._output.end()
            self._waiting_bytes = 0

    def _finish(self) -> WriteResult | None:
        if self._rows == 0:
            self._output.abort()
            return None
        with self._invalid_data():
            self._end_encoder()
        size = self._output.finish(self._metadata)
        return WriteResult(
            location=self._location,
            size_bytes=size,
            row_count=self._rows,
            column_sizes={
                leaf.field.field_id: sum(self._output.column_bytes[number] for number in leaf.type_ids)
                for leaf in self._stored.leaves
            },
            split_offsets=tuple(stripe.offset for stripe in self._output.stripes),
        )

    def _give_up(self) -> None:
        self._output.abort()
        # An encoder writes its tail whenever it is dropped: now, into nothing.
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            with suppress(Exception):
                encoder.close()
