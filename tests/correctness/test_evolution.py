"""How rows of old files look through the table's current schema."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

import formatkit
from formatkit.errors import IllegalPromotionError, InvalidDataError, MissingRequiredFieldError
from support.checks import RealTable, file_of

ID = NestedField(1, "id", LongType(), required=True)
PLACES = ("top level", "struct", "list", "map")


def optional(field_id: int, name: str, iceberg_type: IcebergType, **facts: Any) -> NestedField:
    return NestedField(field_id, name, iceberg_type, **facts)


def nested(place: str, *fields: NestedField, version: int = 0) -> Schema:
    """A schema with these fields at the top level, in a struct, in the elements of a list or in the values of a map."""
    struct = StructType(*fields)
    holders = {
        "struct": struct,
        "list": ListType(51, struct, element_required=False),
        "map": MapType(51, StringType(), 52, struct, value_required=False),
    }
    if place == "top level":
        return Schema(ID, *fields, schema_id=version)
    return Schema(ID, optional(50, "x", holders[place]), schema_id=version)


def nested_rows(place: str, structs: list[dict[int, Any] | None]) -> list[tuple[Any, ...]]:
    match place:
        case "top level":
            return [(number, *struct.values()) for number, struct in enumerate(filter(None, structs))]
        case "struct":
            return list(enumerate(structs))
        case "list":
            return [(0, None), (1, []), (2, structs), (3, structs[:1])]
        case "map":
            return [(0, None), (1, []), (2, [(str(number), struct) for number, struct in enumerate(structs)])]
    raise AssertionError(place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "after",
    [
        pytest.param([(3, "a", IntegerType()), (2, "b", IntegerType())], id="swapped"),
        pytest.param([(2, "z", IntegerType()), (3, "b", IntegerType())], id="renamed"),
        pytest.param([(3, "b", IntegerType()), (4, "a", StringType())], id="dropped and added with another type"),
        pytest.param(
            [(2, "b", LongType()), (4, "a", IntegerType()), (3, "c", IntegerType())], id="renamed onto another"
        ),
        pytest.param([(4, "new", IntegerType())], id="only a new field"),
        pytest.param([(3, "b", LongType())], id="only an old field, promoted"),
    ],
)
def test_fields_follow_their_ids(place: str, after: list[tuple[int, str, IcebergType]], tmp_path: Path) -> None:
    old = nested(place, optional(2, "a", IntegerType()), optional(3, "b", IntegerType()))
    new = nested(place, *(optional(*field) for field in after), version=1)
    rows = nested_rows(place, [{2: 1, 3: 10}, None, {2: None, 3: 20}, {2: 3, 3: None}])
    RealTable(tmp_path, [old, new], [file_of(old, *rows)]).check()


@pytest.mark.parametrize("place", ["struct", "list", "map"])
def test_null_parents_stay_null_when_only_absent_children_are_wanted(place: str, tmp_path: Path) -> None:
    old = nested(place, optional(2, "a", IntegerType()))
    new = nested(place, optional(2, "a", IntegerType()), optional(3, "b", IntegerType(), initial_default=7), version=1)
    rows = nested_rows(place, [{2: 1}, None, {2: None}])
    table = RealTable(tmp_path, [old, new], [file_of(old, *rows)], format_version=3)
    table.check()
    if place == "struct":
        table.check(select=("x.b",))
        table.check("x.b = 7", select=("id",))


@pytest.mark.parametrize(
    ("narrow", "wide", "values"),
    [
        (IntegerType(), LongType(), [1, -1, 2**31 - 1]),
        (FloatType(), DoubleType(), [0.10000000149011612, -0.0, float("nan")]),
        (DecimalType(9, 2), DecimalType(38, 2), [Decimal("9999999.99"), Decimal("-1.50")]),
        (DecimalType(10, 2), DecimalType(18, 2), [Decimal("99999999.99"), Decimal("-1.50")]),
        (DateType(), TimestampType(), [-719162, 0, 2932896]),
        (DateType(), TimestampNanoType(), [-100000, 0, 100000]),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", PLACES)
def test_promotions_keep_every_value(
    place: str, narrow: IcebergType, wide: IcebergType, values: list[Any], tmp_path: Path
) -> None:
    old = nested(place, optional(2, "a", narrow))
    new = nested(place, optional(2, "a", wide), version=1)
    rows = nested_rows(place, [{2: value} for value in (*values, None)])
    RealTable(tmp_path, [old, new], [file_of(old, *rows)], format_version=3).check()


def test_a_date_that_no_timestamp_can_hold_is_refused(tmp_path: Path) -> None:
    old = Schema(ID, optional(2, "d", DateType()))
    new = Schema(ID, optional(2, "d", TimestampNanoType()), schema_id=1)
    table = RealTable(tmp_path, [old, new], [file_of(old, (1, date(2300, 1, 1)))], format_version=3).table
    with pytest.raises(InvalidDataError, match=r"0\.parquet"):
        formatkit.scan(table).to_arrow()


@pytest.mark.parametrize(
    ("stored", "wanted", "value"),
    [
        (LongType(), IntegerType(), 1),
        (DoubleType(), FloatType(), 1.0),
        (DecimalType(9, 2), DecimalType(9, 3), Decimal("1.00")),
        (DecimalType(18, 2), DecimalType(9, 2), Decimal("1.00")),
        (IntegerType(), StringType(), 1),
        (IntegerType(), DoubleType(), 1),
        (TimestampType(), TimestamptzType(), 0),
        (DateType(), TimestamptzType(), 0),
        (StringType(), UUIDType(), "a"),
        (StringType(), BinaryType(), "a"),
    ],
    ids=str,
)
def test_an_illegal_promotion_is_refused_by_name(
    stored: IcebergType, wanted: IcebergType, value: Any, tmp_path: Path
) -> None:
    old = Schema(ID, optional(2, "x", stored))
    new = Schema(ID, optional(2, "x", wanted), schema_id=1)
    # Files only: what manifests say about an impossible table is beside the point.
    table = RealTable(tmp_path, [old], [file_of(old, (1, value))])
    with pytest.raises(IllegalPromotionError, match="x") as caught:
        formatkit.read_file(table.files[0].location, schema=new).to_arrow()
    assert "0.parquet" in str(caught.value)


@pytest.mark.parametrize("place", PLACES)
def test_a_required_field_that_no_one_has_is_refused_when_reading_begins(place: str, tmp_path: Path) -> None:
    old = nested(place, optional(2, "a", IntegerType()))
    new = nested(
        place, optional(2, "a", IntegerType()), NestedField(3, "must", IntegerType(), required=True), version=1
    )
    table = RealTable(tmp_path, [old, new], [file_of(old, *nested_rows(place, [{2: 1}]))]).table
    with pytest.raises(MissingRequiredFieldError, match="must") as caught:
        formatkit.scan(table).to_arrow()
    assert "0.parquet" in str(caught.value)


@pytest.mark.parametrize("default", [None, ()])
def test_an_absent_struct_is_made_of_its_childrens_defaults_only_if_its_own_default_says_so(
    default: Any, tmp_path: Path
) -> None:
    inner = NestedField(4, "inner", StructType(optional(5, "y", StringType(), initial_default="deep")))
    struct = StructType(optional(3, "z", IntegerType(), initial_default=7), inner)
    new = Schema(ID, NestedField(2, "s", struct).model_copy(update={"initial_default": default}), schema_id=1)
    file = file_of(Schema(ID), (0,), (1,))
    scan = formatkit.read_file(RealTable(tmp_path, [Schema(ID)], [file]).files[0].location, schema=new)
    expected = None if default is None else {"z": 7, "inner": None}
    assert scan.to_arrow()["s"].to_pylist() == [expected, expected]


def test_a_present_struct_takes_the_defaults_of_absent_children_two_levels_deep(tmp_path: Path) -> None:
    y = optional(4, "y", IntegerType())
    z = optional(5, "z", IntegerType(), initial_default=7)
    old = Schema(ID, optional(2, "s", StructType(optional(3, "t", StructType(y)))))
    new = Schema(ID, optional(2, "s", StructType(optional(3, "t", StructType(y, z)))), schema_id=1)
    file = file_of(old, (0, {3: {4: 1}}), (1, {3: None}), (2, None), (3, {3: {4: None}}))
    table = RealTable(tmp_path, [old, new], [file], format_version=3)
    table.check()
    for where in ("s.t.z = 7", "s.t.z is null", "s.t.z != 7", "not (s.t.z < 8)"):
        table.check(where)


def test_a_present_column_never_takes_the_default(tmp_path: Path) -> None:
    old = Schema(ID, optional(2, "x", IntegerType()))
    new = Schema(ID, optional(2, "x", IntegerType(), initial_default=7), schema_id=1)
    table = RealTable(tmp_path, [old, new], [file_of(old, (0, None), (1, 7), (2, 8))], format_version=3)
    for where in (None, "x = 7", "x is null", "x != 7"):
        table.check(where)
