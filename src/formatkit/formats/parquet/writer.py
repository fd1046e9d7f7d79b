"""Writes Parquet files as Iceberg's specification asks for them, with pyarrow as the encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.file_writing import EncoderOutput, FileWriterLife
from formatkit.batches.arrow.required import RequiredCheck, without_hidden_nulls
from formatkit.contract import ByteSink, Encryption, SinkStream, Step, WriteOptions, WriteResult, schema_to_json
from formatkit.contract.fields import check_stored_depth
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.formats.parquet.row_groups import RowGroupBuffer
from formatkit.formats.parquet.schema import MAX_LEVELS
from formatkit.formats.parquet.stored_schema import annotated_end
from formatkit.formats.parquet.write_properties import ParquetProperties
from formatkit.formats.parquet.write_schema import StoredSchema, stored_schema

__all__ = ["ParquetFileWriter", "ParquetWriter"]

_SAMPLE_ROWS = 32_768
_KEY_LENGTHS = (16, 24, 32)


@dataclass(frozen=True)
class _Layout:
    """What all files that are written with the same options have in common; a table has many small ones."""

    stored: StoredSchema
    properties: ParquetProperties
    fixed_options: Mapping[str, Any]
    metadata: dict[str, str]
    to_stored: Step[pa.RecordBatch]
    check_required: RequiredCheck

    @classmethod
    def of(cls, options: WriteOptions) -> _Layout:
        check_stored_depth(options.schema, limit=MAX_LEVELS, of_list=2, of_map=2)
        stored = stored_schema(options.schema)
        properties = ParquetProperties.parse(options.properties, stored.leaves)
        if options.encryption is not None:
            if stored.annotations:
                names = ", ".join(sorted({leaf.name for leaf in stored.leaves if leaf.field_id in stored.annotations}))
                raise UnsupportedError(f"pyarrow cannot encrypt columns of these types, write without a key: {names}")
            # They are a hint, and the encoder cannot encrypt them.
            properties = replace(properties, bloom_filters={})
        return cls(
            stored,
            properties,
            _fixed_encoder_options(options.encryption),
            {**options.metadata, "iceberg.schema": schema_to_json(options.schema)},
            ArrowBatch().evolve(options.schema, stored.schema, {}),
            RequiredCheck(stored.schema.fields),
        )


class ParquetWriter:
    """Creates Parquet files from Arrow batches."""

    def __init__(self) -> None:
        self._last: tuple[WriteOptions, _Layout] | None = None

    def open(self, sink: ByteSink, options: WriteOptions) -> ParquetFileWriter:
        last = self._last
        if last is None or last[0] is not options:
            last = self._last = options, _Layout.of(options)
        return ParquetFileWriter(sink, last[1], overwrite=options.overwrite)


class ParquetFileWriter(FileWriterLife):
    """One Parquet file. Rows are buffered until they fill a row group."""

    def __init__(self, sink: ByteSink, layout: _Layout, *, overwrite: bool) -> None:
        super().__init__(sink.location)
        self._stored = layout.stored
        self._properties = layout.properties
        self._fixed_options = layout.fixed_options
        self._metadata = layout.metadata
        self._to_stored = layout.to_stored
        self._check_required = layout.check_required
        self._buffer = RowGroupBuffer(
            target_bytes=layout.properties.row_group_bytes,
            max_rows=layout.properties.row_group_rows,
            min_rows=layout.properties.row_group_check_rows,
        )
        self._rows = 0
        self._encoder: pq.ParquetWriter | None = None
        self._output = _HoldingOutput(sink.create(overwrite=overwrite))

    def write(self, batch: pa.RecordBatch) -> None:
        self._require_open("written to")
        with self._invalid_data():
            batch = self._to_stored(batch)
            self._check_required(batch, self._rows)
            batch = without_hidden_nulls(batch, self._stored.schema.fields)
            if self._stored.has_geometry:
                batch = batch.cast(self._stored.arrow)
        if batch.num_rows == 0:
            return
        self._rows += batch.num_rows
        self._buffer.add(batch)
        while (rows := self._buffer.rows_of_full_group()) is not None:
            if self._buffer.ratio is None:
                self._measure_sample()
            else:
                self._write_row_group(rows)

    def bytes_written(self) -> int:
        if self._buffer.ratio is None and self._buffer.rows > 0:
            self._measure_sample()
        return self._output.tell() + self._buffer.encoded_bytes()

    def _finish(self) -> WriteResult | None:
        if self._rows == 0:
            self._output.abort()
            return None
        while self._buffer.rows > 0:
            self._write_row_group(self._buffer.rows_of_full_group() or self._buffer.rows)
        assert self._encoder is not None  # noqa: S101
        self._encoder.add_key_value_metadata(self._metadata)
        annotations = self._stored.annotations
        if annotations:
            self._output.hold()
        self._encoder.close()
        if annotations:
            self._output.release(lambda end: annotated_end(end, annotations))
        size = self._output.tell()
        self._output.publish()
        return _result(self._location, size, self._encoder.writer.metadata, self._stored)

    def _write_row_group(self, rows: int) -> None:
        start = self._output.tell()
        if self._encoder is None:
            self._encoder = self._new_encoder(self._output, rows)
        table = pa.Table.from_batches(self._buffer.take(rows), self._stored.arrow)
        with self._invalid_data():
            self._encoder.write_table(table, row_group_size=rows)
        self._buffer.measured(self._output.tell() - start, table.nbytes)

    def _measure_sample(self) -> None:
        sample = self._buffer.sample(_SAMPLE_ROWS)
        scratch = pa.MockOutputStream()
        with self._invalid_data(), self._new_encoder(scratch, sample.num_rows) as encoder:
            encoder.write_batch(sample)
            encoded = scratch.size()
        self._buffer.measured(encoded, sample.nbytes)

    def _new_encoder(self, output: Any, row_group_rows: int) -> pq.ParquetWriter:
        options = {**self._properties.encoder_options(row_group_rows), **self._fixed_options}
        return pq.ParquetWriter(output, self._stored.arrow, **options)

    def _give_up(self) -> None:
        self._output.abort()
        # An encoder writes its footer whenever it is dropped: now, into nothing.
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            with suppress(Exception):
                encoder.close()


class _HoldingOutput(EncoderOutput):
    """An output that can keep back what is written to it, so that it is changed before it is stored."""

    def __init__(self, stream: SinkStream) -> None:
        super().__init__(stream)
        self._held: bytearray | None = None

    def hold(self) -> None:
        """Keep back what is written from here on."""
        self._held = bytearray()

    def release(self, change: Callable[[bytes], bytes]) -> None:
        """Write what was kept back, changed."""
        held, self._held = bytes(self._held or b""), None
        self.write(change(held))

    def write(self, data: bytes | memoryview) -> int:
        if self._held is None or self.closed:
            return super().write(data)
        self._held += data
        return len(data)

    def tell(self) -> int:
        return super().tell() + len(self._held or b"")


def _fixed_encoder_options(encryption: Encryption | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "version": "2.6",
        "store_schema": False,
        "store_decimal_as_integer": True,
        "write_page_index": True,
        "write_page_checksum": True,
    }
    if encryption is not None:
        options["encryption_properties"] = _encryption_properties(encryption)
    return options


def _encryption_properties(encryption: Encryption) -> Any:
    """One key for footer and columns; as in Java, the AAD prefix is for the reader to know and not in the file."""
    try:
        from pyarrow.parquet.encryption import create_encryption_properties  # type: ignore[attr-defined]
    except ImportError as error:
        raise UnsupportedError("writing encrypted Parquet needs pyarrow 25 or later") from error
    if len(encryption.key) not in _KEY_LENGTHS:
        lengths = ", ".join(map(str, _KEY_LENGTHS))
        message = f"the encryption key has {len(encryption.key)} bytes; Parquet encryption takes one of {lengths}"
        raise ConfigurationError(message)
    return create_encryption_properties(
        encryption.key, aad_prefix=encryption.aad_prefix or None, store_aad_prefix=False
    )


def _result(location: str, size: int, metadata: pq.FileMetaData, stored: StoredSchema) -> WriteResult:
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    sizes = {
        field_id: sum(group.column(i).total_compressed_size for group in groups for i in columns)
        for field_id, columns in stored.columns.items()
    }
    first_chunks = [group.column(0) for group in groups]
    return WriteResult(
        location=location,
        size_bytes=size,
        row_count=metadata.num_rows,
        column_sizes=sizes,
        split_offsets=tuple(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in first_chunks),
    )
