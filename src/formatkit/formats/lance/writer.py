"""Writes Lance files, with ids as field metadata and a seal that lets damage be told.

Lance writes to a path, so it writes to a temporary file, from which the bytes go to the sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from lance.file import LanceFileWriter
from pyiceberg.types import NestedField

from formatkit.batches.arrow.file_schema import arrow_schema_with_ids
from formatkit.batches.arrow.file_writing import ArrowFileWriter
from formatkit.batches.arrow.forms import without_offsets
from formatkit.batches.arrow.required import without_hidden_nulls
from formatkit.batches.arrow.staging import StagedOutput
from formatkit.contract.options import WriteOptions
from formatkit.contract.schema_json import schema_to_json
from formatkit.contract.storage import ByteSink
from formatkit.errors import FormatkitError, InvalidDataError, UnsupportedError
from formatkit.formats.lance.failures import reason, require_own_threads
from formatkit.formats.lance.local_file import TAIL_BYTES
from formatkit.formats.lance.reader import split_offsets
from formatkit.formats.lance.schema import ICEBERG_SCHEMA, stored_schema

__all__ = ["LanceWriter"]


class LanceWriter:
    """Creates Lance files from Arrow batches."""

    def open(self, sink: ByteSink, options: WriteOptions) -> ArrowFileWriter:
        if options.encryption is not None:
            raise UnsupportedError(f"{sink.location}: Lance files cannot be encrypted", location=sink.location)
        require_own_threads(sink.location)
        stored = stored_schema(options.schema)
        metadata = {**options.metadata, ICEBERG_SCHEMA: schema_to_json(options.schema)}
        schema = arrow_schema_with_ids(stored).with_metadata(metadata)
        output = StagedOutput(sink.create(overwrite=options.overwrite))
        try:
            encoder = _Encoder(output, stored.fields, schema, sink.location)
            return ArrowFileWriter(output, encoder, stored, sink, options)
        except BaseException:
            output.abort()
            raise


class _Encoder:
    """Lance's writer."""

    def __init__(self, output: StagedOutput, fields: Sequence[NestedField], schema: pa.Schema, location: str) -> None:
        self._output = output
        self._path = output.folder / "staged.lance"
        output.expected_bytes, output.cancel = self._expected_bytes, self._drop
        self._fields = fields
        self._schema = schema
        self._location = location
        self._rows = 0
        self._on_disk = 0
        self._not_on_disk = 0
        with self._failures():
            self._writer: Any = LanceFileWriter(str(self._path), schema)

    def write(self, batch: pa.RecordBatch) -> None:
        batch = without_hidden_nulls(batch, self._fields)
        columns = [without_offsets(column) for column in batch.columns]
        with self._failures():
            # The same columns under a schema that has ids; types differ in field metadata only.
            self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._rows += batch.num_rows
        self._not_on_disk += batch.nbytes

    def finish(self) -> tuple[int, ...]:
        with self._failures():
            self._writer.close()
        self._output.copy_sealed(self._path, lambda _: TAIL_BYTES, {})
        return split_offsets(self._rows, self._output.tell())

    def _drop(self) -> None:
        """Without its writer, Lance removes what it wrote."""
        self._writer = None

    def _expected_bytes(self) -> int:
        """What Lance wrote under a name of its own, and what it was given since."""
        on_disk = 0
        for path in self._output.folder.iterdir():
            with suppress(FileNotFoundError):
                on_disk += path.stat().st_size
        if on_disk != self._on_disk:
            self._on_disk, self._not_on_disk = on_disk, 0
        return on_disk + self._not_on_disk

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (FormatkitError, KeyboardInterrupt, SystemExit):
            raise
        except NotImplementedError as error:
            message = f"{self._location}: Lance cannot store the schema: {reason(error)}"
            raise UnsupportedError(message, location=self._location) from error
        except BaseException as error:
            message = f"a batch cannot be written to {self._location}: {reason(error)}"
            raise InvalidDataError(message, location=self._location) from error
