"""The scenarios that catch readers: each is a question to which a released reader was seen to give a wrong answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

from pyiceberg.expressions import (
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
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
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.tck.literals import internal, unscaled
from formatkit.tck.naive import File
from formatkit.tck.scenarios import Scenario

__all__ = ["TRAPS", "TRAPS_ABOUT", "by_table"]

_ID = NestedField(1, "id", LongType(), required=True)
_NAN = math.nan
_LOW = UUID("7f000000-0000-0000-0000-000000000001")
_HIGH = UUID("80000000-0000-0000-0000-000000000000")


def _ask(operator: Callable[..., BooleanExpression], column: str, value: Any) -> BooleanExpression:
    return operator(column, value)


def _schema(*fields: NestedField, version: int = 0) -> Schema:
    return Schema(*fields, schema_id=version)


def _numbered(schema: Schema, *columns: Sequence[Any], **facts: Any) -> File:
    """A file whose first column counts the rows; leaves may be given as Python's own values."""
    rows = [
        {
            field.field_id: internal(value, field.field_type) if isinstance(field.field_type, PrimitiveType) else value
            for field, value in zip(schema.fields, (number, *values), strict=True)
        }
        for number, values in enumerate(zip(*columns, strict=True))
    ]
    return File(schema=schema, rows=rows, **facts)


def _only_ids(schema: Schema, count: int, **facts: Any) -> File:
    return File(schema=schema, rows=[{_ID.field_id: number} for number in range(count)], **facts)


def _column(
    name: str, iceberg_type: PrimitiveType, values: Sequence[Any], *questions: BooleanExpression | str
) -> Iterator[Scenario]:
    schema = _schema(_ID, NestedField(2, "x", iceberg_type))
    for where in questions:
        yield Scenario(name=name, schemas=[schema], files=[_numbered(schema, values)], where=where)


def _promoted(
    narrow: PrimitiveType,
    wide: PrimitiveType,
    values: Sequence[Any],
    *questions: BooleanExpression | str,
    format_version: Any = 2,
) -> Iterator[Scenario]:
    old = _schema(_ID, NestedField(2, "x", narrow))
    new = _schema(_ID, NestedField(2, "x", wide), version=1)
    for where in questions:
        yield Scenario(
            name=f"{narrow} became {wide}",
            schemas=[old, new],
            files=[_numbered(old, values)],
            where=where,
            format_version=format_version,
        )


def _promotions() -> Iterator[Scenario]:
    yield from _promoted(
        IntegerType(),
        LongType(),
        [1, 2, None, 2**31 - 1, 5, None],
        "x < 5000000000",
        "x != 5000000000",
        "x in (1, 5000000000)",
        "not (x > -5000000000)",
    )
    yield from _promoted(
        FloatType(),
        DoubleType(),
        [1.0, 1.1, None, 1.2, _NAN, 0.1],
        "x > 1.1",
        "x = 1.100000023841858",
        "x <= 0.1",
        "x != 1.1",
    )
    yield from _promoted(
        DecimalType(9, 2),
        DecimalType(18, 2),
        [Decimal("1.50"), None, Decimal("9999999.99"), Decimal("-1.00")],
        "x < 99999999999.99",
        "x != 1.50",
    )
    yield from _promoted(
        DateType(),
        TimestampType(),
        [date(1969, 12, 31), None, date(2021, 6, 1), date(1970, 1, 1)],
        "x > '1970-01-01T00:00:00'",
        "x = '2021-06-01T00:00:00'",
        format_version=3,
    )


_DEFAULTS: list[tuple[IcebergType, Any]] = [
    (BooleanType(), True),
    (IntegerType(), 34),
    (LongType(), 2**40),
    (FloatType(), 1.5),
    (DoubleType(), 0.1),
    (DecimalType(9, 2), Decimal("1.50")),
    (DateType(), date(2021, 6, 1)),
    (TimeType(), time(12, 30)),
    (TimestampType(), datetime(2021, 6, 1, 12)),
    (TimestamptzType(), datetime(2021, 6, 1, 12, tzinfo=UTC)),
    (StringType(), "iceberg"),
    (UUIDType(), _HIGH),
    (FixedType(2), b"\x00\x80"),
    (BinaryType(), b"\x80"),
]


def _defaults() -> Iterator[Scenario]:
    where: BooleanExpression | str
    old = _schema(_ID)
    for iceberg_type, value in _DEFAULTS:
        new = _schema(_ID, NestedField(2, "x", iceberg_type, initial_default=value), version=1)
        for where in (_ask(EqualTo, "x", value), _ask(NotEqualTo, "x", value), _ask(LessThanOrEqual, "x", value)):
            yield Scenario(
                name=f"default of type {iceberg_type}",
                schemas=[old, new],
                files=[_only_ids(old, 4)],
                where=where,
                format_version=3,
            )
    inner = NestedField(3, "y", IntegerType())
    old = _schema(_ID, NestedField(2, "s", StructType(inner)))
    new = _schema(
        _ID, NestedField(2, "s", StructType(inner, NestedField(4, "z", IntegerType(), initial_default=7))), version=1
    )
    for where in ("s.z = 7", "s.z is null", "s.z != 7"):
        yield Scenario(
            name="default inside a nullable struct",
            schemas=[old, new],
            files=[_numbered(old, [{3: 1}, None, {3: None}, {3: 2}])],
            where=where,
            format_version=3,
        )
    new = _schema(_ID, NestedField(2, "x", DoubleType()), version=1)
    for where in ("x is null", "x is not nan", "x != 1.5", "not (x < 1.5)"):
        yield Scenario(
            name="column that was added later, without default",
            schemas=[_schema(_ID), new],
            files=[_only_ids(_schema(_ID), 5)],
            where=where,
        )


def _nulls() -> Iterator[Scenario]:
    # Three rows a row group: one where every value fails and one is null, one of nulls only, one mixed.
    integers = [1, 1, None, None, None, None, 1, 2, None]
    yield from _column(
        "nulls in several row groups", IntegerType(), integers, "x != 1", "x not in (1, 2)", "not (x < 2)", "x < 2"
    )
    strings = ["ab", "ac", None, None, None, None, "ab", "b", None]
    yield from _column("nulls in several row groups", StringType(), strings, "x not like 'a%'", "x like 'a%'")
    doubles = [1.0, _NAN, None, _NAN, _NAN, _NAN, 1.0, 2.0, None, 1.0, 1.0, 1.0]
    yield from _column(
        "NaN and nulls in several row groups",
        DoubleType(),
        doubles,
        "x != 1.0",
        "x not in (1.0, 2.0)",
        "x is not nan",
        "x is nan",
        "x > 1.5",
        "x <= 1.0",
        "not (x > 0.5)",
    )
    zeros = [-0.0, -0.0, -0.0, 0.0, 0.0, 0.0, 1.0, None, -1.0]
    yield from _column("both zeros", DoubleType(), zeros, "x = 0.0", _ask(EqualTo, "x", -0.0), "x < 0.0", "x >= 0.0")


def _bytes() -> Iterator[Scenario]:
    yield from _column(
        "unsigned order of uuids",
        UUIDType(),
        [_LOW, _HIGH, None, UUID(int=0), UUID(int=2**128 - 1), _HIGH],
        _ask(EqualTo, "x", _HIGH),
        _ask(GreaterThan, "x", _LOW),
        _ask(In, "x", {_LOW, UUID(int=0)}),
        _ask(NotIn, "x", {_LOW, _HIGH}),
    )
    yield from _column(
        "unsigned order of bytes",
        BinaryType(),
        [b"\x7f", b"\x80", None, b"", b"\xff\xff", b"\x80\x00"],
        _ask(LessThan, "x", b"\x80"),
        _ask(GreaterThanOrEqual, "x", b"\x80"),
        _ask(NotEqualTo, "x", b""),
    )
    yield from _column(
        "unsigned order of fixed",
        FixedType(2),
        [b"\x7f\xff", b"\x80\x00", None, b"\x00\x00"],
        _ask(GreaterThan, "x", b"\x7f\xff"),
        _ask(NotEqualTo, "x", b"\x00\x00"),
    )
    for decimal_type in (DecimalType(9, 2), DecimalType(18, 2), DecimalType(38, 2)):
        most = unscaled(10**decimal_type.precision - 1, 2)
        yield from _column(
            f"order of {decimal_type}",
            decimal_type,
            [Decimal("1.50"), most.copy_negate(), None, most, Decimal("-1.50"), Decimal("0.00")],
            "x < 0.00",
            "x != 1.50",
            _ask(EqualTo, "x", most),
        )


def _nesting() -> Iterator[Scenario]:
    element = StructType(NestedField(4, "y", IntegerType()))
    lists = _schema(_ID, NestedField(2, "x", ListType(3, element, element_required=False)))
    maps = _schema(_ID, NestedField(2, "x", MapType(3, StringType(), 5, element, value_required=False)))
    for where in (AlwaysTrue(), "x is null", "x is not null"):
        yield Scenario(
            name="null and empty lists of structs",
            schemas=[lists],
            files=[_numbered(lists, [None, [], [None], [{4: None}], [{4: 1}, None], None])],
            where=where,
        )
        yield Scenario(
            name="null and empty maps of structs",
            schemas=[maps],
            files=[_numbered(maps, [None, [], [("k", None)], [("k", {4: None})], [("k", {4: 1}), ("l", None)], None])],
            where=where,
        )
    old = _schema(_ID, NestedField(2, "s", StructType(NestedField(3, "y", IntegerType()))))
    renamed = _schema(_ID, NestedField(2, "s", StructType(NestedField(3, "z", IntegerType()))), version=1)
    rows = [{3: 1}, None, {3: None}, {3: 2}]
    for where in (AlwaysTrue(), "s.z = 1", "s.z != 1"):
        yield Scenario(
            name="field of a struct was renamed", schemas=[old, renamed], files=[_numbered(old, rows)], where=where
        )
    two = _schema(_ID, NestedField(2, "a", IntegerType()), NestedField(3, "b", IntegerType()))
    swapped = _schema(_ID, NestedField(2, "b", IntegerType()), NestedField(3, "a", IntegerType()), version=1)
    again = _schema(_ID, NestedField(4, "a", IntegerType()), NestedField(3, "b", IntegerType()), version=1)
    values = _numbered(two, [1, 2, None, 1], [10, 1, 1, None])
    for where in (AlwaysTrue(), "a = 1", "a != 1"):
        yield Scenario(name="two columns swapped names", schemas=[two, swapped], files=[values], where=where)
        yield Scenario(name="column was dropped and added again", schemas=[two, again], files=[values], where=where)


def _partitions() -> Iterator[Scenario]:
    where: BooleanExpression | str
    schema = _schema(_ID, NestedField(2, "p", IntegerType()), NestedField(3, "v", IntegerType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"), spec_id=0)
    files = [
        _numbered(schema, [value] * 3, [1, 2, None], partition={1000: value}, constants={2: value})
        for value in (1, 7, None)
    ]
    for where in ("p < 5 or v = 1", "p != 1", "p is null or v is null", "not (p > 5) and v != 2"):
        yield Scenario(name="null partition values", schemas=[schema], files=files, where=where, specs=[spec])
    for kind, values in (
        (IntegerType(), (0, 3, None)),
        (StringType(), ("", "x", None)),
        (BooleanType(), (False, True)),
    ):
        table = _schema(_ID, NestedField(2, "p", kind))
        constants = [_only_ids(_schema(_ID), 2, partition={1000: value}, constants={2: value}) for value in values]
        for where in (AlwaysTrue(), _ask(EqualTo, "p", values[0]), _ask(NotEqualTo, "p", values[1])):
            yield Scenario(
                name=f"partition column of type {kind} that is not in the files",
                schemas=[table],
                files=constants,
                where=where,
                specs=[spec],
            )


def by_table(scenarios: Iterable[Scenario]) -> list[tuple[dict[str, Any], list[BooleanExpression | str]]]:
    """The questions that concern one table, with the table as `ScanKit.built` takes it."""
    tables: dict[tuple[str, int], tuple[dict[str, Any], list[BooleanExpression | str]]] = {}
    for scenario in scenarios:
        facts = {
            "schemas": scenario.schemas,
            "files": scenario.files,
            "specs": scenario.specs,
            "format_version": scenario.format_version,
            "properties": scenario.properties,
        }
        tables.setdefault((scenario.name, id(scenario.schema)), (facts, []))[1].append(scenario.where)
    return list(tables.values())


TRAPS_ABOUT: dict[str, tuple[Scenario, ...]] = {
    "promotions": tuple(_promotions()),
    "defaults": tuple(_defaults()),
    "nulls": tuple(_nulls()),
    "bytes": tuple(_bytes()),
    "nesting": tuple(_nesting()),
    "partitions": tuple(_partitions()),
}
"""By what they are about."""

TRAPS: tuple[Scenario, ...] = tuple(chain.from_iterable(TRAPS_ABOUT.values()))
"""All of them, in the order in which reports show them."""
