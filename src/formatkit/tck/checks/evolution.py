"""Files that are older than the table's schema: columns that were added, dropped, renamed, moved and promoted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from formatkit.contract import Capability
from formatkit.errors import IllegalPromotionError, InvalidDataError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.histories import histories
from formatkit.tck.lives import files_of_any_age
from formatkit.tck.naive import Row
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import ID, PLACES, file_of, placed, placed_file

_BY_ID: dict[str, Any] = {
    "layer": Layer.SCAN,
    "when": Capability.FIELD_IDS,
    "twin": "a_format_without_ids_is_read_through_a_mapping_only",
}
_A, _B = NestedField(2, "a", IntegerType()), NestedField(3, "b", IntegerType())
_STRUCTS: Sequence[Row | None] = [{2: 1, 3: 10}, None, {2: None, 3: 20}, {2: 3, 3: None}]


def _becomes(kit: ScanKit[Any], *after: NestedField, places: Sequence[str] = PLACES) -> None:
    """Files with columns `a` and `b`, at each place, through a schema where they became something else."""
    for place in places:
        old, new = placed(place, _A, _B), placed(place, *after, version=1)
        kit.compare([old, new], [placed_file(place, old, _STRUCTS)])


@check("P3", "J36", layer=Layer.SCAN)
def columns_that_were_added_later_are_null(kit: ScanKit[Any]) -> None:
    _becomes(kit, NestedField(4, "first", StringType()), _A, _B, NestedField(5, "last", DoubleType()))


@check("P1", "J37", "X50", **_BY_ID)
def a_column_that_was_dropped_and_added_again_is_a_new_one(kit: ScanKit[Any]) -> None:
    _becomes(kit, _A, NestedField(4, "b", IntegerType()))
    _becomes(kit, _A, NestedField(4, "b", StringType()))


@check("P1", "J41", layer=Layer.SCAN)
def columns_are_found_wherever_they_stand_in_the_file(kit: ScanKit[Any]) -> None:
    _becomes(kit, _B, _A)
    old = placed("top level", _A, _B)
    with kit.built([old], [placed_file("top level", old, _STRUCTS)]) as table:
        table.compare(select=("b", "id", "a"))


@check("P1", "J42", **_BY_ID)
def renamed_columns_are_found_by_their_ids(kit: ScanKit[Any]) -> None:
    _becomes(kit, NestedField(2, "renamed", IntegerType()), NestedField(3, "also renamed", IntegerType()))


@check("P1", "X50", **_BY_ID)
def columns_that_swapped_their_names_keep_their_values(kit: ScanKit[Any]) -> None:
    _becomes(kit, NestedField(2, "b", IntegerType()), NestedField(3, "a", IntegerType()))


@check("P1", "X50", **_BY_ID)
def a_name_that_moved_on_to_another_column_says_nothing(kit: ScanKit[Any]) -> None:
    _becomes(kit, NestedField(2, "b", LongType()), NestedField(4, "a", IntegerType()), NestedField(3, "c", LongType()))


@check("P1", "J43", layer=Layer.SCAN)
def required_columns_may_become_optional(kit: ScanKit[Any]) -> None:
    old = Schema(
        ID, NestedField(2, "a", IntegerType(), required=True), NestedField(3, "b", StringType(), required=True)
    )
    new = Schema(ID, NestedField(2, "a", IntegerType()), NestedField(3, "b", StringType()), schema_id=1)
    files = [file_of(old, (0, 1, "x"), (1, 2, "")), file_of(new, (2, None, None), (3, 4, "y"))]
    kit.compare([old, new], files)


@check("P1", "P3", "X51", layer=Layer.SCAN)
def structs_may_grow_wherever_they_are(kit: ScanKit[Any]) -> None:
    new = NestedField(4, "new", IntegerType())
    _becomes(kit, _A, new, _B)
    _becomes(kit, _B)
    _becomes(kit, new)


@check("P4", "J38", "X54", layer=Layer.SCAN)
def ints_are_read_as_longs(kit: ScanKit[Any]) -> None:
    _promotes(kit, IntegerType(), LongType(), [1, -1, 2**31 - 1, -(2**31)])


@check("P4", "J39", "X54", layer=Layer.SCAN)
def floats_are_read_as_the_doubles_that_they_are(kit: ScanKit[Any]) -> None:
    _promotes(kit, FloatType(), DoubleType(), [0.10000000149011612, -0.0, math.nan, math.inf])


@check("P4", "J40", "X54", layer=Layer.SCAN)
def decimals_are_read_with_more_digits(kit: ScanKit[Any]) -> None:
    for before, after in ((9, 18), (9, 38), (10, 18), (18, 19)):
        values = [Decimal(10**before - 1).scaleb(-2), Decimal("-1.50"), Decimal("0.00")]
        _promotes(kit, DecimalType(before, 2), DecimalType(after, 2), values)


@check("P4", "X54", layer=Layer.SCAN)
def dates_are_read_as_timestamps(kit: ScanKit[Any]) -> None:
    _promotes(kit, DateType(), TimestampType(), [-719_162, -1, 0, 2_932_896])
    _promotes(kit, DateType(), TimestampNanoType(), [-100_000, -1, 0, 100_000])


def _promotes(kit: ScanKit[Any], narrow: IcebergType, wide: IcebergType, values: Sequence[Any]) -> None:
    for place in PLACES:
        old = placed(place, NestedField(2, "a", narrow, required=True), NestedField(3, "b", narrow))
        new = placed(place, NestedField(2, "a", wide, required=True), NestedField(3, "b", wide), version=1)
        structs: list[Row | None] = [*({2: value, 3: value} for value in values), {2: values[0], 3: None}]
        kit.compare([old, new], [placed_file(place, old, structs)], format_version=3)


@check("P4", "X54", layer=Layer.SCAN)
def a_date_that_no_timestamp_can_hold_is_refused(kit: ScanKit[Any]) -> None:
    old = Schema(ID, NestedField(2, "d", DateType()))
    new = Schema(ID, NestedField(2, "d", TimestampNanoType()), schema_id=1)
    file = file_of(old, (0, date(2021, 6, 1)), (1, date(2300, 1, 1)))
    with (
        kit.built([old, new], [file], format_version=3) as table,
        expect.raises(InvalidDataError, when="reading the year 2300 as nanoseconds"),
    ):
        table.rows(table.scan())


_ILLEGAL: Sequence[tuple[IcebergType, IcebergType, Any]] = [
    (LongType(), IntegerType(), 1),
    (DoubleType(), FloatType(), 1.0),
    (DecimalType(9, 2), DecimalType(9, 3), Decimal("1.00")),
    (DecimalType(18, 2), DecimalType(9, 2), Decimal("1.00")),
    (IntegerType(), StringType(), 1),
    (IntegerType(), DoubleType(), 1),
    (TimestampType(), TimestamptzType(), 0),
    (TimestamptzType(), TimestampType(), 0),
    (DateType(), TimestamptzType(), 0),
    (StringType(), UUIDType(), "a"),
    (StringType(), BinaryType(), "a"),
]


@check("P4", "X55", layer=Layer.SCAN)
def changes_of_type_that_iceberg_does_not_know_are_refused(kit: ScanKit[Any]) -> None:
    for stored, wanted, value in _ILLEGAL:
        old, new = Schema(ID, NestedField(2, "x", stored)), Schema(ID, NestedField(2, "x", wanted), schema_id=1)
        with (
            kit.built([old], [file_of(old, (0, value))]) as table,
            expect.raises(IllegalPromotionError, when=f"reading {stored} as {wanted}"),
        ):
            table.rows(table.scan_file(new))


@check("P1", "P3", "P4", **_BY_ID)
def files_of_any_age_are_read_as_the_table_is_now(kit: ScanKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schemas = data.draw(histories(nanoseconds=kit.format.nanoseconds), label="schemas")
        files = data.draw(files_of_any_age(schemas, kit.format.plugin.capabilities), label="files")
        kit.compare(schemas, files, format_version=3)
