"""Spark's source filters as filters of Iceberg, which have no third truth value and another idea of NaN.

A filter of SQL is true, false or unknown for a row, and only rows for which it is true are kept. So that `not` can be
translated too, each filter is translated twice: into the rows for which it is true and those for which it is false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyiceberg.expressions import IsNull, NotNull, Reference
from pyiceberg.expressions.literals import (
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimestampLiteral,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from formatkit.spark.comparisons import ALWAYS, FLOATING, NEVER, ORDERED, UNKNOWN, Translated, all_of, any_of

__all__ = ["Translated", "from_spark", "translate"]


@dataclass(frozen=True)
class SparkFilter:
    """One of Spark's `sources.Filter`s, taken out of the JVM.

    Attributes:
        name: The name of its class, such as ``EqualTo``.
        column: The path of the column, for those that are about one.
        values: What it is compared with: numbers, text, bytes, days, microseconds.
        children: For `And`, `Or` and `Not`.
    """

    name: str
    column: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()
    children: tuple[SparkFilter, ...] = ()

    @property
    def columns(self) -> frozenset[tuple[str, ...]]:
        """The paths of all columns that it looks at."""
        own = frozenset([self.column]) if self.column else frozenset()
        return own.union(*(child.columns for child in self.children))


def from_spark(jvm: Any, java_filter: Any) -> SparkFilter:
    """Take a `sources.Filter` out of the JVM."""
    name = java_filter.getClass().getSimpleName()
    match name:
        case "And" | "Or":
            children = (java_filter.left(), java_filter.right())
            return SparkFilter(name, children=tuple(from_spark(jvm, child) for child in children))
        case "Not":
            return SparkFilter(name, children=(from_spark(jvm, java_filter.child()),))
        case "IsNull" | "IsNotNull":
            values: Iterable[Any] = ()
        case "In":
            values = java_filter.values()
        case _ if (name, False) in ORDERED:
            values = (java_filter.value(),)
        case _:
            return SparkFilter(name)
    # Parsed by Spark: in the text of a column's path, dots in names are quoted.
    (path,) = java_filter.v2references()
    return SparkFilter(name, tuple(path), tuple(_value(jvm, value) for value in values))


def _value(jvm: Any, value: Any) -> Any:
    """A value as Spark stores it: dates and moments arrive as objects of Java, whose calendar changes in 1582."""
    if value is None or isinstance(value, bool | int | float | str | bytes | Decimal):
        return value
    converters = getattr(jvm.org.apache.spark.sql.catalyst, "CatalystTypeConverters$")
    return getattr(converters, "MODULE$").convertToCatalyst(value)


def translate(schema: Schema, spark_filter: SparkFilter) -> Translated:
    """The rows of a table for which a filter is true.

    Args:
        schema: The columns of the table. Columns that it lacks are left to Spark, as is whatever has no exact equal.
        spark_filter: What Spark asks for.
    """
    return _true(schema, spark_filter)


def _true(schema: Schema, asked: SparkFilter) -> Translated:
    match asked.name:
        case "And":
            return all_of(_true(schema, child) for child in asked.children)
        case "Or":
            return any_of(_true(schema, child) for child in asked.children)
        case "Not":
            return _false(schema, asked.children[0])
        case "AlwaysTrue":
            return ALWAYS
        case "AlwaysFalse":
            return NEVER
    return _leaf(schema, asked, negated=False)


def _false(schema: Schema, asked: SparkFilter) -> Translated:
    match asked.name:
        case "And":
            return any_of(_false(schema, child) for child in asked.children)
        case "Or":
            return all_of(_false(schema, child) for child in asked.children)
        case "Not":
            return _true(schema, asked.children[0])
        case "AlwaysTrue":
            return NEVER
        case "AlwaysFalse":
            return ALWAYS
    return _leaf(schema, asked, negated=True)


def _leaf(schema: Schema, asked: SparkFilter, *, negated: bool) -> Translated:
    kind = _column_type(schema, asked.column)
    if kind is None:
        return UNKNOWN
    column = Reference(".".join(asked.column))
    if asked.name in ("IsNull", "IsNotNull"):
        wants_null = (asked.name == "IsNull") is not negated
        return Translated(IsNull(term=column) if wants_null else NotNull(term=column), exact=True)
    compare = FLOATING if isinstance(kind, FloatType | DoubleType) else ORDERED
    test = compare.get((asked.name, negated))
    literal = _LITERALS.get(type(kind))
    if test is None or literal is None:
        return UNKNOWN
    values = [None if value is None else literal(kind, value) for value in asked.values]
    if any(value is None and given is not None for value, given in zip(values, asked.values, strict=True)):
        return UNKNOWN
    return test(column, values)


def _column_type(schema: Schema, path: tuple[str, ...]) -> IcebergType | None:
    """The type of a column of the table; None for any other, and where names would be ambiguous with dots."""
    kind: IcebergType = schema.as_struct()
    for name in path:
        if not isinstance(kind, StructType) or "." in name:
            return None
        field = next((field for field in kind.fields if field.name == name), None)
        if field is None:
            return None
        kind = field.field_type
    return kind if path else None


def _exactly(kind: type[Literal[Any]], accepts: type) -> Callable[[IcebergType, Any], Literal[Any] | None]:
    # bool is a subclass of int in Python, and never meant by it here.
    def literal(_: IcebergType, value: Any) -> Literal[Any] | None:
        return kind(value) if type(value) is accepts else None  # type: ignore[call-arg]

    return literal


def _decimal(kind: IcebergType, value: Any) -> Literal[Any] | None:
    if not isinstance(value, Decimal) or not isinstance(kind, DecimalType):
        return None
    scaled = value.scaleb(kind.scale)
    return DecimalLiteral(value) if scaled == scaled.to_integral_value() else None


def _floating(_: IcebergType, value: Any) -> float | None:
    return value if isinstance(value, float) else None  # no literal of pyiceberg can be NaN


def _binary(_: IcebergType, value: Any) -> Literal[Any] | None:
    return BinaryLiteral(bytes(value)) if isinstance(value, bytes | bytearray) else None


_LITERALS: dict[type[IcebergType], Callable[[IcebergType, Any], Any]] = {
    BooleanType: _exactly(BooleanLiteral, bool),
    IntegerType: _exactly(LongLiteral, int),
    LongType: _exactly(LongLiteral, int),
    FloatType: _floating,
    DoubleType: _floating,
    DecimalType: _decimal,
    DateType: _exactly(DateLiteral, int),
    TimestampType: _exactly(TimestampLiteral, int),
    TimestamptzType: _exactly(TimestampLiteral, int),
    StringType: _exactly(StringLiteral, str),
    BinaryType: _binary,
}
"""How values of each type are written in filters of Iceberg; without the types that are others in Spark."""
