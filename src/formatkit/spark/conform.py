"""Brings what users' functions return into the form that Spark takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from formatkit.batches.arrow.types import Column
from formatkit.errors import InvalidDataError
from formatkit.spark.normalise import uuid_text

__all__ = ["conformer"]


def conformer(
    schema: StructType,
) -> Callable[[pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Compile the way to batches of exactly these columns: chosen by name, and cast where that loses nothing."""
    target = to_arrow_schema(schema, timezone="UTC")

    def conform(result: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
