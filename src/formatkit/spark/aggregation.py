"""Aggregates that are made inside of buckets, so that few rows cross from Python to Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    UUIDType,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from formatkit.contract.variant import VariantType
from formatkit.errors import ColumnNotFoundError, ConfigurationError, InvalidDataError, UnsupportedError
from formatkit.scan import Scan
from formatkit.scan.aggregates import Aggregates
from formatkit.spark.buckets import map_buckets
from formatkit.spark.types import spark_schema

__all__ = ["aggregate", "group_in_buckets"]

_FORM = re.compile(r"\s*(count|sum|min|max)\s*(?:\(\s*(.+?)\s*\)\s*)?", re.IGNORECASE)
# NaN is no number to Arrow, and the greatest one to Spark, which has two zeros in one group; uuids are text to Spark.
_NOT_COMPARED = (FloatType, DoubleType, UUIDType, GeometryType, GeographyType, VariantType)
_MOST_DIGITS = 38
_MOST_LONG = (1 << 63) - 1


def aggregate(spark: SparkSession, scan: Scan, *aggregates: str, buckets: int | None = None) -> pa.RecordBatch:
    """One row with a column for each of ``count``, ``count(x)``, ``min(x)`` and ``max(x)``; as `Scan.aggregate` has it.

    What the table's metadata tells is not read. Executors read the rest, and each bucket sends one row.

    Args:
        spark: A session, classic or Connect.
        scan: What to read.
        aggregates: What to compute, of columns that are selected.
        buckets: The most Spark partitions; as in `read`.

    Raises:
        ConfigurationError, ColumnNotFoundError, UnsupportedError: The arguments are wrong.
    """
    asked = Aggregates(aggregates, scan.schema)
    known, rest = scan.partly_aggregated(asked)
    if not rest.tasks:
        return asked.together([known])
    sent = map_buckets(spark, rest, _Answer(asked), "answer binary", buckets=buckets).collect()
    return asked.together([known, *(_unpacked(row.answer) for row in sent)])


@dataclass(frozen=True)
class _Answer:
    """The answer of a bucket, packed, since Spark lacks some of the types."""

    asked: Aggregates

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        answer = self.asked.of_batches(batches)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, answer.schema) as stream:
            stream.write_batch(answer)
        return pa.record_batch({"answer": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def _unpacked(packed: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(bytes(packed)).read_next_batch()


def group_in_buckets(
    spark: SparkSession,
    scan: Scan,
    by: str | Sequence[str],
    aggregates: Mapping[str, str],
    *,
    buckets: int | None = None,
) -> DataFrame:
    """Group the rows of a scan: first inside of each bucket, in Arrow, and then what the buckets have, in Spark.

    Args:
        spark: A session, classic or Connect.
        scan: What to read; it has to select what is named here.
        by: The columns to group by.
        aggregates: The columns to make, each as ``count``, ``count(x)``, ``sum(x)``, ``min(x)`` or ``max(x)``.
        buckets: The most Spark partitions that read; as in `read`.

    Raises:
        UnsupportedError: A column has a type for which Arrow and Spark would not agree.
        InvalidDataError: On an executor, a sum is too large for its type.
    """
    keys = [_column(scan.schema, name) for name in ((by,) if isinstance(by, str) else by)]
    if not keys or not aggregates:
        raise ConfigurationError("name the columns to group by, and what to make of each group")
    for key in keys:
        if not isinstance(key.field_type, PrimitiveType) or isinstance(key.field_type, _NOT_COMPARED):
            raise UnsupportedError(f"column {key.name!r} is {key.field_type}, by which buckets do not group")
    parts = [_parse(name, text, scan.schema) for name, text in aggregates.items()]
    numbered = [*((key.name, key.field_type) for key in keys), *((part.name, part.kind) for part in parts)]
    schema = Schema(*(NestedField(id_, name, kind, required=False) for id_, (name, kind) in enumerate(numbered, 1)))
    grouped = _Groups(tuple(key.name for key in keys), tuple(parts))
    target = spark_schema(schema)
    frame = map_buckets(spark, scan, grouped, target, buckets=buckets)
    together = {"count": sql.sum, "sum": sql.sum, "min": sql.min, "max": sql.max}
    merged = [together[part.function](part.name).cast(target[part.name].dataType).alias(part.name) for part in parts]
    return frame.groupBy(*(key.name for key in keys)).agg(*merged)


@dataclass(frozen=True)
class _Part:
    """One column of the result."""

    name: str
    function: str
    column: str | None
    kind: IcebergType


@dataclass(frozen=True)
class _Groups:
    """The groups of a bucket; batch by batch, so that memory holds groups, not rows."""

    keys: tuple[str, ...]
    parts: tuple[_Part, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        found = [self._grouped(pa.Table.from_batches([batch]), self.parts) for batch in batches if batch.num_rows]
        if not found:
            return ()
        # A group of several batches has a row from each.
        again = tuple(
            _Part(part.name, "sum" if part.function == "count" else part.function, part.name, part.kind)
            for part in self.parts
        )
        return self._grouped(pa.concat_tables(found), again).to_batches()

    def _grouped(self, rows: pa.Table, parts: Sequence[_Part]) -> pa.Table:
        columns = {f"key {i}": rows.column(key) for i, key in enumerate(self.keys)}
        for i, part in enumerate(parts):
            columns[f"value {i}"] = _values(rows, part)
        grouped = pa.table(columns).group_by([f"key {i}" for i in range(len(self.keys))])
        asked: list[Any] = [(f"value {i}", part.function) for i, part in enumerate(parts)]
        made = grouped.aggregate(asked)
        names = [*self.keys, *(part.name for part in parts)]
        chosen = [f"key {i}" for i in range(len(self.keys))] + [f"value {i}_{p.function}" for i, p in enumerate(parts)]
        return made.select(chosen).rename_columns(names)


def _values(rows: pa.Table, part: _Part) -> Any:
    if part.column is None:
        return pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
    column = rows.column(part.column)
    if part.function != "sum":
        return column
    if pa.types.is_integer(column.type):
        extremes: Any = pc.min_max(column).as_py()
        largest = max(abs(extremes["min"] or 0), abs(extremes["max"] or 0))
        # Arrow's sums begin anew when they are too large.
        if largest * rows.num_rows > _MOST_LONG:
            raise InvalidDataError(f"the sum {part.name!r} may be too large for a long; let Spark make it")
        return column.cast(pa.int64())
    if pa.types.is_decimal(column.type):
        return column.cast(pa.decimal128(_MOST_DIGITS, column.type.scale))
    return column.cast(pa.float64())


def _parse(name: str, text: str, schema: Schema) -> _Part:
    match = _FORM.fullmatch(text)
    function = match[1].lower() if match else ""
    if match is None or (match[2] is None and function != "count"):
        raise ConfigurationError(f"{text!r} is none of: count, count(column), sum(column), min(column), max(column)")
    if match[2] in (None, "*"):
        return _Part(name, function, None, LongType())
    column = _column(schema, match[2])
    if function == "count":
        return _Part(name, function, column.name, LongType())
    return _Part(name, function, column.name, _result(function, column))


def _result(function: str, column: NestedField) -> IcebergType:
    """The type of an aggregate, as in Spark."""
    kind = column.field_type
    match kind:
        case IntegerType() | LongType() if function == "sum":
            return LongType()
        case FloatType() | DoubleType() if function == "sum":
            return DoubleType()
        case DecimalType() if function == "sum":
            return DecimalType(min(kind.precision + 10, _MOST_DIGITS), kind.scale)
    if function == "sum" or not isinstance(kind, PrimitiveType) or isinstance(kind, _NOT_COMPARED):
        raise UnsupportedError(f"{function} of {column.name!r}, which is {kind}, is not made inside of buckets")
    return kind


def _column(schema: Schema, name: str) -> NestedField:
    found = next((each for each in schema.fields if each.name == name), None)
    if found is None:
        raise ColumnNotFoundError(name, (each.name for each in schema.fields))
    return found
