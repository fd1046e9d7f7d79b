from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from formatkit.contract.metadata_columns import POS, partition_column
from formatkit.errors import AmbiguousColumnError, ColumnNotFoundError
from formatkit.scan.select import readable_schema, select_columns

POINT = StructType(
    NestedField(11, "x", IntegerType(), required=True),
    NestedField(12, "y", IntegerType(), required=False, initial_default=7),
)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "point", POINT, required=False),
    NestedField(3, "points", ListType(31, POINT.model_copy(), element_required=False), required=False),
    NestedField(
        4,
        "by_name",
        MapType(41, StringType(), 42, StructType(NestedField(43, "a", LongType()), NestedField(44, "b", LongType()))),
        required=False,
    ),
    NestedField(5, "dotted.name", StringType(), required=False),
)


def select(*names: str, case_sensitive: bool = True) -> Schema:
    return select_columns(readable_schema(SCHEMA), SCHEMA, names, case_sensitive=case_sensitive)


def names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def test_a_star_stands_for_the_columns_of_the_table_only() -> None:
    assert select("*").fields == SCHEMA.fields
    assert names(select("_pos", "*")) == ["_pos", *names(SCHEMA)]


def test_columns_come_once_in_the_order_in_which_they_are_named() -> None:
    assert names(select("point", "id", "point", "_file")) == ["point", "id", "_file"]


def test_a_part_of_a_struct_keeps_its_default_and_its_ids() -> None:
    (field,) = select("point.y").fields
    assert field == NestedField(2, "point", StructType(POINT.fields[1]), required=False)
    assert isinstance(field.field_type, StructType)
    assert field.field_type.fields[0].initial_default == 7


def test_what_holds_for_a_struct_holds_for_a_part_of_it() -> None:
    whole = Schema(NestedField(2, "point", POINT, required=True, doc="where"))
    (field,) = select_columns(whole, whole, "point.x", case_sensitive=True).fields
    assert (field.required, field.doc) == (True, "where")


def test_parts_of_one_struct_come_together_in_its_own_order() -> None:
    schema = select("point.y", "id", "point.x")
    assert names(schema) == ["point", "id"]
    assert schema.fields[0].field_type == POINT


def test_a_whole_struct_includes_its_parts() -> None:
    assert select("point.x", "point").fields[0].field_type == POINT


def test_elements_of_lists_and_values_of_maps_can_be_pruned() -> None:
    points, by_name = select("points.element.x", "by_name.value.b").fields
    assert points.field_type == ListType(31, StructType(POINT.fields[0]), element_required=False)
    assert by_name.field_type == MapType(41, StringType(), 42, StructType(NestedField(44, "b", LongType())))


def test_keys_alone_do_not_make_a_map() -> None:
    assert select("by_name.key").fields[0] == SCHEMA.fields[3]


def test_a_dot_may_be_part_of_a_name() -> None:
    assert names(select("dotted.name")) == ["dotted.name"]


def test_case_matters_unless_told_otherwise() -> None:
    assert names(select("POINT.X", "_POS", case_sensitive=False)) == ["point", "_pos"]
    with pytest.raises(ColumnNotFoundError, match=r"'Id'.*id, point"):
        select("Id")


def test_a_name_that_fits_two_columns_is_refused() -> None:
    twins = Schema(NestedField(1, "a", LongType()), NestedField(2, "A", LongType()))
    with pytest.raises(AmbiguousColumnError):
        select_columns(readable_schema(twins), twins, ("a",), case_sensitive=False)


def test_a_column_of_the_table_hides_the_metadata_column_of_its_name() -> None:
    schema = Schema(NestedField(1, "_pos", StringType()), NestedField(2, "pos", LongType()))
    readable = readable_schema(schema, partition_column(StructType()))
    assert readable.find_field("_pos").field_id == 1
    assert POS.field_id not in readable.field_ids
    assert "_partition" in names(readable)


def test_nothing_can_be_selected() -> None:
    assert select().fields == ()
