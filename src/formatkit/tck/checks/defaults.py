"""Columns that a file lacks: their defaults, null, or an error before any row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

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
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.errors import MissingRequiredFieldError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.naive import Row
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import ID, PLACES, file_of, placed, placed_file
from formatkit.tck.traps import TRAPS_ABOUT, by_table

_A = NestedField(2, "a", IntegerType())
_STRUCTS: Sequence[Row | None] = [{2: 1}, None, {2: None}]
_DEFAULTS: Sequence[tuple[IcebergType, Any]] = [
    (BooleanType(), True),
    (IntegerType(), 34),
    (LongType(), 2**40),
    (FloatType(), 1.5),
    (DoubleType(), -0.0),
    (DecimalType(9, 2), Decimal("1.50")),
    (DateType(), date(1969, 12, 31)),
    (TimeType(), time(12, 30)),
    (TimestampType(), datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    (TimestamptzType(), datetime(2021, 6, 1, 12, tzinfo=UTC)),
    (StringType(), "iceberg"),
    (UUIDType(), UUID("80000000-0000-0000-0000-000000000001")),
    (FixedType(16), b"\x00\x80" * 8),
    (BinaryType(), b"\x80"),
]


@check("P3", "J28", layer=Layer.SCAN)
def a_column_that_the_file_lacks_takes_its_default(kit: ScanKit[Any]) -> None:
    old = Schema(ID, _A)
    new = Schema(
        ID,
        NestedField(2, "a", IntegerType(), initial_default=7),
        NestedField(3, "must", StringType(), required=True, initial_default="orange"),
        NestedField(4, "may", IntegerType(), initial_default=34),
        schema_id=1,
    )
    files = [file_of(old, (0, None), (1, 7), (2, 8)), file_of(new, (3, None, "x", None), (4, 1, "orange", 1))]
    kit.compare([old, new], files, format_version=3)


@check("P3", "J29", layer=Layer.SCAN)
def a_column_without_default_is_null(kit: ScanKit[Any]) -> None:
    columns = [_column(number, kind) for number, (kind, _) in enumerate(_DEFAULTS, 2)]
    kit.compare([Schema(ID), Schema(ID, *columns, schema_id=1)], [file_of(Schema(ID), (0,), (1,))])


@check("P3", "J30", "J31", "J32", layer=Layer.SCAN)
def a_field_that_a_struct_lacks_takes_its_default_where_the_struct_is_not_null(kit: ScanKit[Any]) -> None:
    for place in PLACES:
        old = placed(place, _A)
        new = placed(place, _A, NestedField(3, "b", FloatType(), initial_default=-0.0), version=1)
        kit.compare([old, new], [placed_file(place, old, _STRUCTS)], format_version=3)


@check("P3", "J33", "X45", layer=Layer.SCAN)
def a_required_field_that_nobody_has_is_refused_before_any_row(kit: ScanKit[Any]) -> None:
    for place in PLACES:
        old = placed(place, _A)
        new = placed(place, _A, NestedField(3, "must", IntegerType(), required=True), version=1)
        for structs in (_STRUCTS, [None]):
            file = placed_file(place, old, structs)
            if file.rows:
                with (
                    kit.built([old, new], [file]) as table,
                    table.scan().to_batches() as batches,
                    expect.raises(MissingRequiredFieldError, when=f"reading without a required field ({place})"),
                ):
                    next(batches)


@check("P3", "J34", layer=Layer.SCAN)
def defaults_of_every_primitive_type_are_filled_in(kit: ScanKit[Any]) -> None:
    new = _with_defaults()
    kit.compare([Schema(ID), new], [file_of(Schema(ID), (0,), (1,))], format_version=3)


@check("P3", "J35", layer=Layer.SCAN)
def stored_values_and_nulls_win_over_defaults_of_every_type(kit: ScanKit[Any]) -> None:
    new = _with_defaults()
    old = Schema(ID, *(_column(number, kind) for number, (kind, _) in enumerate(_DEFAULTS, 2)))
    others = (False, 1, 1, 2.5, 0.0, Decimal("-1.50"), 1, 1, 1, 1, "", UUID(int=1), bytes(16), b"")
    file = file_of(old, (0, *(None for _ in others)), (1, *others), (2, *(value for _, value in _DEFAULTS)))
    kit.compare([old, new], [file], format_version=3)


def _column(field_id: int, kind: IcebergType, default: Any = None) -> NestedField:
    return NestedField(field_id, f"c{field_id}", kind, initial_default=default)


def _with_defaults() -> Schema:
    columns = (_column(number, kind, value) for number, (kind, value) in enumerate(_DEFAULTS, 2))
    return Schema(ID, *columns, schema_id=1)


@check("P3", "X52", layer=Layer.SCAN)
def null_structs_stay_null_when_only_fields_that_the_file_lacks_are_wanted(kit: ScanKit[Any]) -> None:
    added = NestedField(3, "b", IntegerType(), initial_default=7)
    for place in ("struct", "list", "map"):
        old, new = placed(place, _A), placed(place, added, version=1)
        kit.compare([old, new], [placed_file(place, old, _STRUCTS)], format_version=3)
    old, new = placed("struct", _A), placed("struct", _A, added, version=1)
    with kit.built([old, new], [placed_file("struct", old, _STRUCTS)], format_version=3) as table:
        table.compare(select=("x.b",))
        table.compare("x.b = 7", select=("id",))


@check("P3", "X53", layer=Layer.SCAN)
def a_struct_that_the_file_lacks_is_null_unless_its_default_is_the_empty_struct(kit: ScanKit[Any]) -> None:
    inner = NestedField(4, "inner", StructType(NestedField(5, "y", StringType(), initial_default="deep")))
    struct = StructType(NestedField(3, "z", IntegerType(), initial_default=7), inner)
    plain = NestedField(2, "s", struct)
    # pyiceberg knows no defaults of structs, so they are put in behind its back, and no table is asked.
    for column in (plain, plain.model_copy(update={"initial_default": ()})):
        with kit.built([Schema(ID)], [file_of(Schema(ID), (0,), (1,))]) as table:
            value = None if column is plain else {3: 7, 4: None}
            expected = [{1: number, 2: value} for number in range(2)]
            expect.equal_rows(table.rows(table.scan_file(Schema(ID, column, schema_id=1))), expected)


@check("P3", "P5", "X53", layer=Layer.SCAN)
def a_struct_two_levels_deep_takes_the_defaults_of_fields_that_it_lacks(kit: ScanKit[Any]) -> None:
    y, z = NestedField(4, "y", IntegerType()), NestedField(5, "z", IntegerType(), initial_default=7)
    old = Schema(ID, NestedField(2, "s", StructType(NestedField(3, "t", StructType(y)))))
    new = Schema(ID, NestedField(2, "s", StructType(NestedField(3, "t", StructType(y, z)))), schema_id=1)
    file = file_of(old, (0, {3: {4: 1}}), (1, {3: None}), (2, None), (3, {3: {4: None}}))
    with kit.built([old, new], [file], format_version=3) as table:
        for where in (None, "s.t.z = 7", "s.t.z is null", "s.t.z != 7", "not (s.t.z < 8)"):
            table.compare(where)


@check("P5", "X13", layer=Layer.SCAN)
def filters_see_the_default_of_a_column_that_the_file_lacks(kit: ScanKit[Any]) -> None:
    old = Schema(ID, NestedField(2, "s", StructType(NestedField(3, "y", IntegerType()))))
    inner = StructType(NestedField(3, "y", IntegerType()), NestedField(4, "z", IntegerType(), initial_default=7))
    x = NestedField(5, "x", IntegerType(), initial_default=7)
    new = Schema(ID, NestedField(2, "s", inner), x, schema_id=1)
    file = file_of(old, (0, {3: 1}), (1, None), (2, {3: None}))
    with kit.built([old, new], [file], format_version=3) as table:
        for column in ("x", "s.z"):
            for test in ("= 7", "= 8", "is not null", "is null", "in (7, 8)", "not in (7)", "< 8", "!= 7"):
                table.compare(f"{column} {test}")
                table.compare(f"{column} {test} or id = 1", select=("id",))


@check("P5", "X13", "X14", layer=Layer.SCAN)
def filters_on_columns_that_files_lack_answer_as_if_they_were_stored(kit: ScanKit[Any]) -> None:
    for table, questions in by_table(TRAPS_ABOUT["defaults"]):
        with kit.built(**table) as built:
            for where in questions:
                built.compare(where)


@check("P5", "X14", layer=Layer.SCAN)
def filters_see_null_in_a_column_that_the_file_lacks(kit: ScanKit[Any]) -> None:
    old, new = Schema(ID), Schema(ID, NestedField(2, "x", DoubleType()), schema_id=1)
    with kit.built([old, new], [file_of(old, (0,), (1,))]) as table:
        for test in ("is null", "is not null", "is nan", "is not nan", "= 1.5", "!= 1.5", "< 1.5", "not in (1.5)"):
            table.compare(f"x {test}")
