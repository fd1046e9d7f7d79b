"""Arrow files with Arrow batches, with one thing wrong: how the faults in the modules beside this one are made."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import BatchStream, Capability, FormatFile, ReadOptions, ReadResult
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.tck import Subject
from formatkit.tck.wrapping import WrappedFile, WrappedFormat

__all__ = ["GOOD", "columns_of", "reading", "reporting", "with_columns", "with_files", "with_operations"]

GOOD: Any = ArrowFormat()
Change = Callable[[pa.RecordBatch, ReadOptions], pa.RecordBatch]


def with_operations(operations: ArrowBatch) -> Subject[Any]:
    """Faulty operations with a good format."""
    return Subject(operations=operations, plugin=GOOD)


def with_files(
    wrap: Callable[[FormatFile[Any]], FormatFile[Any]], without: Collection[Capability] = ()
) -> Subject[Any]:
    """A format whose files are wrapped, with good operations."""
    return Subject(operations=ArrowBatch(), plugin=WrappedFormat(GOOD, wrap, without=without))


def reporting(change: Callable[[Schema], Schema], without: Collection[Capability] = ()) -> Subject[Any]:
    """A format that reads well, but tells another schema of its files."""

    class Reporting(WrappedFile[Any]):
        @property
        def schema(self) -> Schema:
            return change(self.file.schema)

    return with_files(Reporting, without)


def reading(change: Change) -> Subject[Any]:
    """A format that returns other batches than it should."""

    class Reading(WrappedFile[Any]):
        def read(self, options: ReadOptions) -> ReadResult[Any]:
            result = self.file.read(options)
            batches = (change(batch, options) for batch in result.batches)
            return ReadResult(batches=BatchStream(batches, result.batches.close), residual=result.residual)

    return with_files(Reading)


def columns_of(batch: pa.RecordBatch) -> list[Any]:
    return list(batch.columns)


def with_columns(batch: pa.RecordBatch, columns: list[Any]) -> pa.RecordBatch:
    """The batch with other columns in the place of its own."""
    fields = [pa.field(field.name, column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)) if columns else batch
