"""Count, min and max of a query, answered from the table's metadata while Spark plans it."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    TimestampType,
    TimestamptzType,
)
from pyspark.sql.types import StructField, StructType

from formatkit.contract.metadata_columns import DELETED
from formatkit.scan.aggregates import Aggregates
from formatkit.spark.java import JavaObject, java_type
from formatkit.spark.normalise import normaliser
from formatkit.spark.planned_scan import Source
from formatkit.spark.types import spark_schema

__all__ = ["AnsweredScan", "answer"]

_CONNECTOR = "org.apache.spark.sql.connector"
# Their bounds are values of the column, and Spark has the same order.
_WITH_EXACT_BOUNDS = (
    *(BooleanType, IntegerType, LongType, FloatType, DoubleType, DecimalType),
    *(DateType, TimestampType, TimestamptzType),
)


def answer(source: Source, where: BooleanExpression, aggregation: Any) -> AnsweredScan | None:
    """The row of aggregates that a query asks for; None if rows have to be read for it.

    Args:
        source: The table.
        where: Which rows; Spark asks only if no other filter is left for it to apply.
        aggregation: Spark's `Aggregation`.
    """
    if len(aggregation.groupByExpressions()) or DELETED.name in (field.name for field in source.schema.fields):
        return None
    asked = [_asked(source, function) for function in aggregation.aggregateExpressions()]
    texts = [text for text in asked if text is not None]
    if len(texts) < len(asked) or not texts:
        return None
    scan = source.factory(where, None, None)
    aggregates = Aggregates(texts, scan.schema)
    known, rest = scan.partly_aggregated(aggregates)
    if rest.tasks:
        return None
    row = normaliser(aggregates.schema)(aggregates.together([known]))
    fields = {field.name: field for field in spark_schema(aggregates.schema)}
    schema = StructType([StructField(f"{text} #{i}", fields[text].dataType) for i, text in enumerate(texts)])
    return AnsweredScan(source, pa.table([row.column(text) for text in texts], names=schema.names), schema)


def _asked(source: Source, function: Any) -> str | None:
    """An aggregate as `Scan.aggregate` spells it; None for those that metadata cannot tell."""
    kind = function.getClass().getSimpleName()
    if kind == "CountStar":
        return "count"
    if kind not in ("Count", "Min", "Max") or (kind == "Count" and function.isDistinct()):
        return None
    (argument,) = function.children()
    if argument.getClass().getSimpleName() != "FieldReference":
        return None
    (*parents, name) = argument.fieldNames()
    field = next((each for each in source.schema.fields if each.name == name), None)
    known = PrimitiveType if kind == "Count" else _WITH_EXACT_BOUNDS
    if parents or field is None or not isinstance(field.field_type, known) or name != name.strip():
        return None
    return f"{kind.lower()}({name})"


class AnsweredScan(JavaObject):
    """A scan whose only row is known."""

    class Java:  # noqa: D106 - where Py4J looks
        implements = (f"{_CONNECTOR}.read.LocalScan",)

    def __init__(self, source: Source, row: pa.Table, schema: StructType) -> None:
        self._source = source
        self._row = row
        self._schema = schema

    def rows(self) -> Any:
        frame: Any = self._source.spark.createDataFrame(self._row, self._schema)
        return frame._jdf.queryExecution().executedPlan().executeCollect()  # noqa: SLF001

    def readSchema(self) -> Any:
        return java_type(self._source.spark, self._schema)

    def description(self) -> str:
        return f"formatkit {self._source.name} from metadata: {', '.join(self._row.column_names)}"

    def toBatch(self) -> None:
        return None

    def supportedCustomMetrics(self) -> Any:
        return self._source.java_array(f"{_CONNECTOR}.metric.CustomMetric")

    def reportDriverMetrics(self) -> Any:
        return self._source.java_array(f"{_CONNECTOR}.metric.CustomTaskMetric")

    def columnarSupportMode(self) -> Any:
        return self._source.java_class(f"{_CONNECTOR}.read.Scan$ColumnarSupportMode").UNSUPPORTED
