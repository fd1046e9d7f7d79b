"""Runs users' functions over buckets, and brings what they return into the form that Spark takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark.sql.types import StructType

from formatkit.batches.arrow.types import Column
from formatkit.errors import InvalidDataError
from formatkit.spark.normalise import uuid_text
from formatkit.spark.types import as_arrow
from formatkit.spark.worker import work_in

if TYPE_CHECKING:
    from formatkit.scan.buckets import BucketReader

__all__ = ["Batches", "MapBuckets", "Result"]

Batches: TypeAlias = Iterator[pa.RecordBatch]
Result: TypeAlias = pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]


@dataclass
class MapBuckets:
    """The function that `mapInArrow` runs: buckets of one scan or of several in, what a user's function returns out."""

    readers: tuple[BucketReader[pa.RecordBatch], ...]
    function: Callable[..., Result]
    schema: StructType
    buckets: tuple[bytes, ...] = field(default=(), repr=False)

    def __call__(self, rows: Batches) -> Batches:
        conform = _conformer(self.schema)
        for group in work_in(rows, self.buckets):
            with ExitStack() as opened:
                streams = [reader.batches(bucket) for reader, bucket in zip(self.readers, group, strict=True)]
                for stream in streams:
                    opened.callback(stream.close)
                yield from conform(self.function(*streams))


def _conformer(schema: StructType) -> Callable[[Result], Batches]:
    """Compile the way to batches of exactly these columns: chosen by name, and cast where that loses nothing."""
    target = as_arrow(schema)

    def conform(result: Result) -> Batches:
        if isinstance(result, pa.Table):
            result = result.to_batches()
        elif isinstance(result, pa.RecordBatch):
            result = [result]
        for batch in result:
            columns = [_column(batch, field) for field in target]
            yield pa.RecordBatch.from_arrays(columns, schema=target)

    return conform


def _column(batch: pa.RecordBatch, field: pa.Field[pa.DataType]) -> Column:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        message = f"the function returned no column {field.name!r}, or several; it returned: {batch.schema.names}"
        raise InvalidDataError(message)
    column: Column = batch.column(index)
    if column.type == pa.uuid():
        column = uuid_text(column)
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"the function returned column {field.name!r} as {column.type}, which is no {field.type}: {error}"
        raise InvalidDataError(message) from error
