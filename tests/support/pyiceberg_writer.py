"""pyiceberg's writer of Parquet behind formatkit's contract, and a writer of what its reader of ORC is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.io.pyarrow import write_file
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import WriteTask
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType

from formatkit.batches.arrow.file_writing import ArrowFileWriter, EncoderOutput
from formatkit.contract import ByteSink, FormatFileWriter, WriteOptions, WriteResult
from formatkit.contract.variant import VariantType
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.formats.orc.plugin import OrcFormat
from support.pyiceberg_file_io import OneFile

__all__ = ["PyicebergParquetWriter", "RestrictedOrcWriter"]


def _refuse(sink: ByteSink, options: WriteOptions) -> None:
    """Refuse what is not declared; nanoseconds because without pandas pyiceberg has no statistics of them."""
    if options.encryption is not None or options.metadata:
        raise UnsupportedError(f"{sink.location}: pyiceberg neither encrypts files nor stores key-value pairs")
    for field_id in options.schema.field_ids:
        kind = options.schema.find_type(field_id)
        if isinstance(kind, VariantType | TimestampNanoType | TimestamptzNanoType):
            raise UnsupportedError(f"{sink.location}: pyiceberg has no {kind} in such files")


class PyicebergParquetWriter:
    """Creates Parquet files by what pyiceberg does for each file that it appends to a table."""

    def open(self, sink: ByteSink, options: WriteOptions) -> ArrowFileWriter:
        _refuse(sink, options)
        output = EncoderOutput(sink.create(overwrite=options.overwrite))
        return _ParquetFileWriter(output, _Encoder(output, options, sink.location), sink, options)


class _ParquetFileWriter(ArrowFileWriter):
    def __init__(self, output: EncoderOutput, encoder: _Encoder, sink: ByteSink, options: WriteOptions) -> None:
        super().__init__(output, encoder, options.schema, sink, options)
        self._pyiceberg = encoder

    def bytes_written(self) -> int:
        return sum(batch.nbytes for batch in self._pyiceberg.batches)

    def _finish(self) -> WriteResult | None:
        result = super()._finish()
        return result and replace(result, column_sizes=self._pyiceberg.column_sizes)


class _Encoder:
    """Keeps batches until the end, when pyiceberg writes them at once, as it does with what is appended to a table."""

    def __init__(self, output: EncoderOutput, options: WriteOptions, location: str) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.column_sizes: Mapping[int, int] = {}
        self._output = output
        self._options = options
        self._location = location

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def finish(self) -> None:
        schema = self._options.schema
        facts: dict[str, Any] = {
            "location": "memory:table",
            "last-column-id": max(schema.field_ids, default=0),
            "schemas": [schema],
            "current-schema-id": schema.schema_id,
            "partition-specs": [UNPARTITIONED_PARTITION_SPEC],
            "properties": dict(self._options.properties),
        }
        table = TableMetadataV2(**facts)
        task = WriteTask(write_uuid=uuid4(), task_id=0, schema=schema, record_batches=self.batches)
        try:
            (written,) = write_file(OneFile(output=self._output), table, iter([task]))
        except pa.ArrowInvalid as error:
            raise InvalidDataError(f"a batch cannot be written to {self._location}: {error}") from error
        self.column_sizes = dict(written.column_sizes)


class RestrictedOrcWriter:
    """formatkit's ORC, since pyiceberg writes none, without what its reader does not declare."""

    def open(self, sink: ByteSink, options: WriteOptions) -> _OrcFileWriter:
        _refuse(sink, options)
        return _OrcFileWriter(OrcFormat().writer().open(sink, options))


class _OrcFileWriter:
    """formatkit's writer, which reports nothing that is not declared."""

    def __init__(self, writer: FormatFileWriter[pa.RecordBatch]) -> None:
        self._writer = writer
        self.write, self.bytes_written, self.abort = writer.write, writer.bytes_written, writer.abort

    def close(self) -> WriteResult | None:
        result = self._writer.close()
        return result and replace(result, column_sizes=None, split_offsets=None)

    def __enter__(self) -> _OrcFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)
