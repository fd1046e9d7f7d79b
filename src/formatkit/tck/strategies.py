"""Hypothesis strategies for Iceberg types, values, rows and predicates.

They are for tests of your own as well as for the kit's. Draw a schema first, then rows of it and questions about it::

    from hypothesis import given, strategies as st
    from formatkit.tck.histories import schemas
    from formatkit.tck.strategies import predicates, rows

    @given(st.data())
    def test_my_reader(data):
        schema = data.draw(schemas())
        written = data.draw(rows(schema))
        where = data.draw(predicates(schema))

Values come from small pools that hold the edges of each type (extremes, NaN, both zeros, bytes on either side of the
sign bit), so that few rows are enough for predicates to hit them. `formatkit.tck.naive.matches` says which rows a
predicate keeps, and `formatkit.tck.rows.to_arrow` turns rows into Arrow tables.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from pyiceberg.expressions import (
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
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    Reference,
    StartsWith,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.contract.variant import Variant, VariantType
from formatkit.tck.literals import internal, unscaled

__all__ = ["leaf_types", "literals", "predicates", "rows", "values"]

_UUIDS = [UUID(int=0), UUID(int=(0x7F << 120) + 1), UUID(int=0x80 << 120), UUID(int=(1 << 128) - 1)]
_MOMENTS = [
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1900, 3, 1, 12, 30),
    datetime(2021, 6, 1, 0, 0, 0, 1),
    datetime(2200, 1, 1),
]
_POOLS: dict[type[IcebergType], list[Any]] = {
    BooleanType: [False, True],
    IntegerType: [0, 1, -1, 7, 100, 2**31 - 1, -(2**31)],
    LongType: [0, 1, -1, 7, 100, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)],
    FloatType: [1.1, 0.1, 0.0, -0.0, -1.5, 3.4e38, math.inf],
    DoubleType: [1.1, 1.100000023841858, 0.1, 0.0, -0.0, -1.5, 1e300, math.inf],
    DateType: [date(1970, 1, 1), date(1969, 12, 31), date(1900, 3, 1), date(2021, 6, 1), date(2200, 1, 1)],
    TimeType: [time(0), time(0, 0, 0, 1), time(12, 30), time(23, 59, 59, 999_999)],
    TimestampType: [*_MOMENTS, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    TimestamptzType: [moment.replace(tzinfo=UTC) for moment in [*_MOMENTS, datetime(9999, 12, 31)]],
    TimestampNanoType: ["1970-01-01T00:00:00", "1969-12-31T23:59:59.999999999", "2021-06-01T00:00:00.000001001"],
    TimestamptzNanoType: ["1970-01-01T00:00:00+00:00", "2021-06-01T00:00:00.000001001+00:00"],
    StringType: ["", "a", "ab", "b", "ä", "\uffff", "\U0001f600", "a" * 70, "a" * 69 + "b"],
    BinaryType: [b"", b"\x00", b"\x7f", b"\x80", b"\xff\xff", b"\x80" * 70],
    UUIDType: list(_UUIDS),
}


_VARIANTS: list[Any] = [None, 7, "", "a" * 70, 1.5, {}, [], {"b": [1, None], "a": {"b": True}}]


def _pool(iceberg_type: IcebergType) -> list[Any]:
    match iceberg_type:
        case VariantType():
            return [Variant.of(value) for value in _VARIANTS]
        case DecimalType():
            most = 10**iceberg_type.precision - 1
            return [unscaled(number, iceberg_type.scale) for number in (0, 1, -1, 150, most, -most)]
        case FixedType():
            return [bytes([byte]) * len(iceberg_type) for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF)]
    return _POOLS[type(iceberg_type)]


def leaf_types(*, variant: bool = False, nanoseconds: bool = True) -> st.SearchStrategy[PrimitiveType]:
    """Every primitive type that a data file can hold, and more often those that can be promoted.

    Variants are among them only if asked for: tables must have version 3 to hold them, and many readers lack them.
    Timestamps with nanoseconds can be left out, for formats that do not declare them.
    """
    promotable = [IntegerType(), FloatType(), FloatType(), DateType(), DecimalType(9, 2)]
    parameterised = [DecimalType(10, 0), DecimalType(18, 4), DecimalType(25, 3), FixedType(3)]
    variants = [VariantType()] * variant
    plain = [make() for make in _POOLS if nanoseconds or make not in (TimestampNanoType, TimestamptzNanoType)]
    return st.sampled_from([*promotable, *plain, *parameterised, *variants])


def values(iceberg_type: IcebergType) -> st.SearchStrategy[Any]:
    """Values of the type as Iceberg holds them: days, microseconds, bytes, decimals.

    The value itself is never null, what is inside of it may be. A struct is a dict by field id, a list a list, and a
    map a list of pairs with distinct keys.
    """
    match iceberg_type:
        case StructType():
            return st.fixed_dictionaries({field.field_id: _field_values(field) for field in iceberg_type.fields})
        case ListType():
            return st.lists(_field_values(iceberg_type.element_field), max_size=3)
        case MapType():
            pair = st.tuples(_field_values(iceberg_type.key_field), _field_values(iceberg_type.value_field))
            return st.lists(pair, max_size=3, unique_by=lambda pair: repr(pair[0]))
    pool = [internal(value, iceberg_type) for value in _pool(iceberg_type)]
    if isinstance(iceberg_type, FloatType | DoubleType):
        pool += [math.nan] * 3
    return st.sampled_from(pool)


def _field_values(field: NestedField) -> st.SearchStrategy[Any]:
    present = values(field.field_type)
    return present if field.required else st.none() | present


@st.composite
def rows(
    draw: st.DrawFn, schema: Schema, *, min_size: int = 0, max_size: int = 12, variety: int = 4
) -> list[dict[int, Any]]:
    """Rows of the schema, each a dict by field id, as `formatkit.tck.naive` holds them.

    Required fields are never null. There are `min_size` to `max_size` rows, and no column has more than `variety`
    values, so that parts of a file often hold one value, or only nulls and NaN.
    """
    columns = {
        field.field_id: draw(st.lists(_field_values(field), min_size=1, max_size=variety)) for field in schema.fields
    }
    row = st.fixed_dictionaries({field_id: st.sampled_from(few) for field_id, few in columns.items()})
    return draw(st.lists(row, min_size=min_size, max_size=max_size))


def literals(iceberg_type: IcebergType) -> st.SearchStrategy[Any]:
    """What a user may compare a column of this type with.

    They are Python's own values (`date`, `UUID`, `Decimal`), some of them beyond what the type can hold. Never null or
    NaN, which Iceberg does not allow as literals.
    """
    pool = list(_pool(iceberg_type))
    match iceberg_type:
        case IntegerType():
            pool += [2**31, 5_000_000_000, -(2**40)]
        case FloatType():
            pool = [number for number in pool if math.isfinite(number)] + [1e39, -1e300]
        case TimestampType():
            pool += [moment + timedelta(microseconds=1) for moment in _MOMENTS]
        case DateType():
            pool += [date(2000, 2, 29)]
        case StringType():
            pool += ["a" * 64, "zz"]
    return st.sampled_from(pool)


def predicates(
    schema: Schema, *, favourites: Collection[int] = (), max_leaves: int = 5
) -> st.SearchStrategy[BooleanExpression]:
    """Predicates over the columns of the schema and over leaves inside its structs, not bound to it yet.

    Columns that cannot be compared, such as lists, are only asked whether they are null.

    Args:
        schema: What the predicate is about.
        favourites: Ids of fields that are asked about more often than others.
        max_leaves: How many conditions there are, about.
    """
    columns = list(_columns(schema.as_struct(), ""))
    columns += [column for column in columns if column[0] in favourites] * 3
    leaves = st.sampled_from(columns).flatmap(lambda column: _tests(column[1], column[2]))
    return st.recursive(
        leaves,
        lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner),
        max_leaves=max_leaves,
    )


def _columns(struct: StructType, prefix: str) -> Iterator[tuple[int, str, IcebergType]]:
    for field in struct.fields:
        yield field.field_id, prefix + field.name, field.field_type
        if isinstance(field.field_type, StructType):
            yield from _columns(field.field_type, f"{prefix}{field.name}.")


def _tests(name: str, iceberg_type: IcebergType) -> st.SearchStrategy[BooleanExpression]:
    null_tests = st.sampled_from([IsNull(term=Reference(name)), NotNull(term=Reference(name))])
    if isinstance(iceberg_type, VariantType) or not isinstance(iceberg_type, PrimitiveType):
        return null_tests
    literal = literals(iceberg_type)
    operators = [EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual]
    if isinstance(iceberg_type, StringType):
        operators += [StartsWith, NotStartsWith]
    comparisons = st.builds(lambda operator, value: operator(name, value), st.sampled_from(operators), literal)
    sets = st.builds(
        lambda operator, members: operator(name, members),
        st.sampled_from([In, NotIn]),
        st.lists(literal, min_size=1, max_size=4),
    )
    choices = [comparisons, comparisons, comparisons, sets, sets, null_tests]
    if isinstance(iceberg_type, FloatType | DoubleType):
        choices.append(st.sampled_from([IsNaN(term=Reference(name)), NotNaN(term=Reference(name))]))
    return st.one_of(choices)
