from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
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
    TimestampType,
    TimestamptzType,
    UnknownType,
)

from formatkit.errors import IllegalPromotionError, MissingRequiredFieldError, UnsupportedError
from formatkit.kernel.projection import prune, widen
from formatkit.kernel.resolve import ResolvedFile

INT = IntegerType()


def field(field_id: int, name: str, type_: IcebergType = INT, **options: Any) -> NestedField:
    return NestedField(field_id, name, type_, **options)


def struct(*fields: NestedField) -> StructType:
    return StructType(*fields)


FILE = Schema(
    field(3, "third", StringType()),
    field(1, "first"),
    field(-1, "unmapped", StringType()),
    field(4, "s", struct(field(5, "text", StringType()), field(6, "flag", BooleanType()), field(-2, "hidden"))),
    field(7, "l", ListType(8, struct(field(9, "a", StringType()), field(10, "b")))),
    field(11, "m", MapType(-3, StringType(), 13, struct(field(14, "c"), field(15, "d")))),
)


def projection(*wanted: NestedField, file: Schema = FILE, **options: Any) -> tuple[NestedField, ...]:
    resolved = ResolvedFile(file, options.pop("unreadable", {}), "f.parquet")
    constants = options.pop("constants", {})
    return prune(resolved, wanted, constants, frozenset(options.pop("replaced", ())))


def test_columns_come_in_the_order_of_the_file_with_its_names_and_types() -> None:
    assert projection(field(1, "renamed", LongType()), field(3, "x", StringType())) == (
        field(3, "third", StringType()),
        field(1, "first"),
    )


def test_structs_are_pruned_inside_lists_and_maps_too() -> None:
    pruned = projection(
        field(7, "l", ListType(8, struct(field(10, "b", LongType())))),
        field(11, "m", MapType(12, StringType(), 13, struct(field(15, "d")))),
    )
    assert pruned == (
        field(7, "l", ListType(8, struct(field(10, "b")))),
        # The key has no id in the file and can be nothing but the key of the table's map.
        field(11, "m", MapType(12, StringType(), 13, struct(field(15, "d")))),
    )


@pytest.mark.parametrize(
    "wanted",
    [
        field(4, "s", struct(field(99, "new"))),
        field(4, "s", struct()),
    ],
    ids=["a child that the file lacks", "only whether it is null"],
)
def test_a_struct_without_wanted_children_keeps_its_cheapest(wanted: NestedField) -> None:
    assert projection(wanted) == (field(4, "s", struct(field(6, "flag", BooleanType()))),)


def test_the_cheapest_child_may_have_to_be_found_further_down() -> None:
    deep = Schema(field(1, "s", struct(field(2, "inner", struct(field(3, "l", ListType(4, struct(field(5, "x")))))))))
    assert projection(field(1, "s", struct()), file=deep) == deep.fields


def test_a_child_that_a_constant_replaces_is_read_under_another_id() -> None:
    file = Schema(field(1, "s", struct(field(2, "p"))))
    pruned = projection(field(1, "s", struct(field(2, "p"))), file=file, constants={2: 5}, replaced=[2])
    (child,) = pruned[0].field_type.fields  # type: ignore[attr-defined]
    assert child.name == "p"
    assert child.field_id < 0


def test_a_column_that_a_constant_replaces_is_not_read() -> None:
    assert projection(field(1, "first"), constants={1: 5}, replaced=[1]) == ()


def test_paths_of_a_filter_widen_the_projection() -> None:
    output = (field(4, "s", struct(field(5, "text", StringType()))),)
    s = field(4, "s", struct(field(5, "text", StringType()), field(6, "flag", BooleanType())))
    widened = widen(output, [(s, field(6, "flag", BooleanType())), (field(1, "first"),), (s,)])
    assert projection(*widened) == (
        field(1, "first"),
        field(4, "s", struct(field(5, "text", StringType()), field(6, "flag", BooleanType()))),
    )
    assert widen((), [(FILE.fields[4],)]) == (field(7, "l", ListType(element_id=8, element_type=struct())),)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (LongType(), IntegerType()),
        (DoubleType(), FloatType()),
        (DecimalType(9, 2), DecimalType(9, 3)),
        (DecimalType(9, 2), DecimalType(8, 2)),
        (IntegerType(), StringType()),
        (TimestampType(), TimestamptzType()),
        (DateType(), TimestamptzType()),
        (IntegerType(), struct(field(2, "x"))),
        (struct(field(2, "x")), IntegerType()),
        (ListType(2, LongType()), ListType(2, IntegerType())),
        (MapType(2, StringType(), 3, LongType()), MapType(2, StringType(), 3, IntegerType())),
    ],
    ids=str,
)
def test_what_is_no_promotion_is_refused_before_reading(stored: IcebergType, wanted: IcebergType) -> None:
    with pytest.raises(IllegalPromotionError, match=r"column 'c.* in f\.parquet"):
        projection(field(1, "c", wanted), file=Schema(field(1, "c", stored)))


def test_types_of_columns_that_nobody_asks_for_do_not_matter() -> None:
    file = Schema(field(1, "a"), field(2, "b", LongType()))
    assert projection(field(1, "a"), file=file) == (field(1, "a"),)


def test_a_missing_required_field_is_named_with_its_path() -> None:
    with pytest.raises(MissingRequiredFieldError, match=r"^Missing required field: new .*f\.parquet"):
        projection(field(99, "new", required=True))
    with pytest.raises(MissingRequiredFieldError, match=r"^Missing required field: s\.new "):
        projection(field(4, "s", struct(field(99, "new", required=True))))
    with pytest.raises(MissingRequiredFieldError, match=r"^Missing required field: l\.element\.new "):
        projection(field(7, "l", ListType(8, struct(field(99, "new", required=True)))))


@pytest.mark.parametrize(
    ("wanted", "constants"),
    [
        (field(99, "new", required=True), {99: 0}),
        (field(99, "new", DateType(), required=True, initial_default=date(2020, 1, 1)), {}),
        (field(99, "new"), {}),
        (field(99, "new"), {99: None}),
        (field(99, "absent", struct(field(100, "x", required=True))), {}),
    ],
    ids=["partition value", "default", "optional", "null partition value", "required child of an absent struct"],
)
def test_a_field_that_has_a_value_may_be_missing(wanted: NestedField, constants: dict[int, Any]) -> None:
    assert projection(wanted, constants=constants) == ()


def test_an_unreadable_column_matters_only_if_it_is_wanted() -> None:
    file = Schema(field(1, "a"), field(2, "odd", UnknownType()), field(3, "s", struct(field(4, "x", UnknownType()))))
    unreadable = {2: "type INTERVAL", 4: "type INTERVAL"}
    assert projection(field(1, "a"), file=file, unreadable=unreadable) == (field(1, "a"),)
    with pytest.raises(UnsupportedError, match=r"'odd' of f\.parquet cannot be read: type INTERVAL"):
        projection(field(2, "odd", StringType()), file=file, unreadable=unreadable)
    with pytest.raises(UnsupportedError, match=r"no child of column 's' in f\.parquet"):
        projection(field(3, "s", struct()), file=file, unreadable=unreadable)


def test_an_unknown_column_of_the_table_is_not_read() -> None:
    assert projection(field(1, "first", UnknownType())) == ()
