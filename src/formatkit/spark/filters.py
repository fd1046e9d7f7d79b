"""Spark's source filters as filters of Iceberg, which have no third truth value and another idea of NaN.

A filter of SQL is true, false or unknown for a row, and only rows for which it is true are kept. So that `not` can be
translated too, each filter is translated twice: into the rows for which it is true and those for which it is false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.expressions.literals import (
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    DoubleLiteral,
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

__all__ = ["Translated", "from_spark", "translate"]

ALL: BooleanExpression = AlwaysTrue()
NONE: BooleanExpression = AlwaysFalse()


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


@dataclass(frozen=True)
class Translated:
    """What became of a filter.

    Attributes:
        keep: Is true for every row that Spark would keep.
        exact: Whether it is true for those only.
    """

    keep: BooleanExpression
    exact: bool


_UNKNOWN = Translated(ALL, exact=False)
_NEVER = Translated(NONE, exact=True)
_ALWAYS = Translated(ALL, exact=True)


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
        case _ if (name, False) in _ORDERED:
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
            return _all(_true(schema, child) for child in asked.children)
        case "Or":
            return _any(_true(schema, child) for child in asked.children)
        case "Not":
            return _false(schema, asked.children[0])
        case "AlwaysTrue":
            return _ALWAYS
        case "AlwaysFalse":
            return _NEVER
    return _leaf(schema, asked, negated=False)


def _false(schema: Schema, asked: SparkFilter) -> Translated:
    match asked.name:
        case "And":
            return _any(_false(schema, child) for child in asked.children)
        case "Or":
            return _all(_false(schema, child) for child in asked.children)
        case "Not":
            return _true(schema, asked.children[0])
        case "AlwaysTrue":
            return _NEVER
        case "AlwaysFalse":
            return _ALWAYS
    return _leaf(schema, asked, negated=True)


def _all(parts: Iterable[Translated]) -> Translated:
    keep, exact = ALL, True
    for part in parts:
        keep, exact = And(keep, part.keep), exact and part.exact
    return Translated(keep, exact)


def _any(parts: Iterable[Translated]) -> Translated:
    keep, exact = NONE, True
    for part in parts:
        keep, exact = Or(keep, part.keep), exact and part.exact
    return Translated(keep, exact)


def _leaf(schema: Schema, asked: SparkFilter, *, negated: bool) -> Translated:
    kind = _column_type(schema, asked.column)
    if kind is None:
        return _UNKNOWN
    column = Reference(".".join(asked.column))
    if asked.name in ("IsNull", "IsNotNull"):
        wants_null = (asked.name == "IsNull") is not negated
        return Translated(IsNull(term=column) if wants_null else NotNull(term=column), exact=True)
    compare = _FLOATING if isinstance(kind, FloatType | DoubleType) else _ORDERED
    test = compare.get((asked.name, negated))
    literal = _LITERALS.get(type(kind))
    if test is None or literal is None:
        return _UNKNOWN
    values = [None if value is None else literal(kind, value) for value in asked.values]
    if any(value is None and given is not None for value, given in zip(values, asked.values, strict=True)):
        return _UNKNOWN
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

_Values = Sequence[Any]
_Test = Callable[[Reference, _Values], Translated]


def _strict(test: Callable[[Reference, Any], BooleanExpression]) -> _Test:
    """A comparison that is unknown when it is made with null, as all of SQL's are but one."""

    def compare(column: Reference, values: _Values) -> Translated:
        (value,) = values
        return _NEVER if value is None else Translated(test(column, value), exact=True)

    return compare


def _test(kind: type[LiteralPredicate]) -> Callable[[Reference, Any], BooleanExpression]:
    return lambda column, value: kind(term=column, value=value)


def _known(test: BooleanExpression, column: Reference) -> BooleanExpression:
    return And(NotNull(term=column), test)


def _null_safe(equal: Callable[[Reference, Any], BooleanExpression]) -> _Test:
    def compare(column: Reference, values: _Values) -> Translated:
        (value,) = values
        return Translated(IsNull(term=column) if value is None else equal(column, value), exact=True)

    return compare


def _null_safe_not(unequal: Callable[[Reference, Any], BooleanExpression]) -> _Test:
    def compare(column: Reference, values: _Values) -> Translated:
        (value,) = values
        return Translated(
            NotNull(term=column) if value is None else Or(IsNull(term=column), unequal(column, value)), exact=True
        )

    return compare


def _in(column: Reference, values: _Values) -> Translated:
    known = {value for value in values if value is not None}
    if not values:
        return _UNKNOWN
    return Translated(In(term=column, values=known), exact=True) if known else _NEVER


def _not_in(column: Reference, values: _Values) -> Translated:
    if not values:
        return _UNKNOWN
    if None in values:
        return _NEVER  # whatever is not in the list may be equal to the null
    known = {value for value in values if value is not None}
    return Translated(_known(NotIn(term=column, values=known), column), exact=True)


_ORDERED: dict[tuple[str, bool], _Test] = {
    ("EqualTo", False): _strict(_test(EqualTo)),
    ("EqualTo", True): _strict(lambda column, value: _known(NotEqualTo(term=column, value=value), column)),
    ("EqualNullSafe", False): _null_safe(_test(EqualTo)),
    ("EqualNullSafe", True): _null_safe_not(_test(NotEqualTo)),
    ("LessThan", False): _strict(_test(LessThan)),
    ("LessThan", True): _strict(_test(GreaterThanOrEqual)),
    ("LessThanOrEqual", False): _strict(_test(LessThanOrEqual)),
    ("LessThanOrEqual", True): _strict(_test(GreaterThan)),
    ("GreaterThan", False): _strict(_test(GreaterThan)),
    ("GreaterThan", True): _strict(_test(LessThanOrEqual)),
    ("GreaterThanOrEqual", False): _strict(_test(GreaterThanOrEqual)),
    ("GreaterThanOrEqual", True): _strict(_test(LessThan)),
    ("In", False): _in,
    ("In", True): _not_in,
    ("StringStartsWith", False): _strict(_test(StartsWith)),
    ("StringStartsWith", True): _strict(lambda column, value: _known(NotStartsWith(term=column, value=value), column)),
}


# To Spark NaN equals NaN and is greater than every other number; to Iceberg it compares with nothing.


def _equal(column: Reference, value: float) -> BooleanExpression:
    return IsNaN(term=column) if math.isnan(value) else EqualTo(term=column, value=DoubleLiteral(value))


def _unequal(column: Reference, value: float) -> BooleanExpression:
    other = NotNaN(term=column) if math.isnan(value) else NotEqualTo(term=column, value=DoubleLiteral(value))
    return _known(other, column)


def _less(column: Reference, value: float) -> BooleanExpression:
    return (
        _known(NotNaN(term=column), column) if math.isnan(value) else LessThan(term=column, value=DoubleLiteral(value))
    )


def _at_most(column: Reference, value: float) -> BooleanExpression:
    return NotNull(term=column) if math.isnan(value) else LessThanOrEqual(term=column, value=DoubleLiteral(value))


def _greater(column: Reference, value: float) -> BooleanExpression:
    return NONE if math.isnan(value) else Or(IsNaN(term=column), GreaterThan(term=column, value=DoubleLiteral(value)))


def _at_least(column: Reference, value: float) -> BooleanExpression:
    return (
        IsNaN(term=column)
        if math.isnan(value)
        else Or(IsNaN(term=column), GreaterThanOrEqual(term=column, value=DoubleLiteral(value)))
    )


def _in_numbers(column: Reference, values: _Values) -> Translated:
    numbers = [value for value in values if value is not None]
    if not values:
        return _UNKNOWN
    found = _any(Translated(_equal(column, value), exact=True) for value in numbers)
    # Long lists are sets to Spark, in which -0.0 and 0.0 are two numbers: it decides which of them were meant.
    return Translated(found.keep, exact=not any(value == 0 for value in numbers))


def _not_in_numbers(column: Reference, values: _Values) -> Translated:
    if not values:
        return _UNKNOWN
    if None in values:
        return _NEVER
    numbers = [value for value in values if value is not None]
    if any(value == 0 for value in numbers):
        return _UNKNOWN
    return _all(Translated(_unequal(column, value), exact=True) for value in numbers)


_FLOATING: dict[tuple[str, bool], _Test] = {
    ("EqualTo", False): _strict(_equal),
    ("EqualTo", True): _strict(_unequal),
    ("EqualNullSafe", False): _null_safe(_equal),
    ("EqualNullSafe", True): _null_safe_not(_unequal),
    ("LessThan", False): _strict(_less),
    ("LessThan", True): _strict(_at_least),
    ("LessThanOrEqual", False): _strict(_at_most),
    ("LessThanOrEqual", True): _strict(_greater),
    ("GreaterThan", False): _strict(_greater),
    ("GreaterThan", True): _strict(_at_most),
    ("GreaterThanOrEqual", False): _strict(_at_least),
    ("GreaterThanOrEqual", True): _strict(_less),
    ("In", False): _in_numbers,
    ("In", True): _not_in_numbers,
}
