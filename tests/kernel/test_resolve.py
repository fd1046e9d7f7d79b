from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType, UnknownType

from formatkit.contract.metadata_columns import ROW_ID
from formatkit.errors import MissingFieldIdsError, SchemaResolutionError
from formatkit.kernel.names import column_paths, dotted
from formatkit.kernel.resolve import resolve

TABLE = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "s", StructType(NestedField(3, "x", IntegerType()), NestedField(4, "y", IntegerType()))),
    NestedField(5, "l", ListType(6, StructType(NestedField(7, "z", IntegerType())))),
    NestedField(8, "m", MapType(9, StringType(), 10, StructType(NestedField(11, "w", LongType())))),
)

# The same columns as a file without ids has them, and some more.
FILE = Schema(
    NestedField(-1, "id", IntegerType()),
    NestedField(-2, "s", StructType(NestedField(-3, "x", IntegerType()), NestedField(-4, "extra", IntegerType()))),
    NestedField(-5, "l", ListType(-6, StructType(NestedField(-7, "z", IntegerType())))),
    NestedField(-8, "m", MapType(-9, StringType(), -10, StructType(NestedField(-11, "w", LongType())))),
    NestedField(-12, "other", StructType(NestedField(-13, "id", IntegerType()))),
)


def ids(file: Schema, **options: Any) -> dict[str, int]:
    """The ids that were found, by name; columns that nothing maps are left out."""
    resolved = resolve(file, TABLE.fields, location="f.parquet", unreadable={}, **options)
    assert [dotted(path) for path in column_paths(resolved.schema)] == [dotted(path) for path in column_paths(file)]
    found = {dotted(path): path[-1].field_id for path in column_paths(resolved.schema)}
    return {name: field_id for name, field_id in found.items() if field_id >= 0}


def mapping(*fields: str) -> NameMapping:
    return parse_mapping_from_json("[" + ",".join(fields) + "]")


FULL_MAPPING = mapping(
    '{"field-id": 1, "names": ["id", "ident"]}',
    '{"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}, {"field-id": 4, "names": []}]}',
    '{"field-id": 5, "names": ["l"], "fields": [{"field-id": 6, "names": ["element"], "fields": '
    '[{"field-id": 7, "names": ["z"]}]}]}',
    '{"field-id": 8, "names": ["m"], "fields": [{"field-id": 9, "names": ["key"]}, {"field-id": 10, "names": '
    '["value"], "fields": [{"field-id": 11, "names": ["w"]}]}]}',
)
EVERYTHING = {
    "id": 1,
    "s": 2,
    "s.x": 3,
    "l": 5,
    "l.element": 6,
    "l.element.z": 7,
    "m": 8,
    "m.key": 9,
    "m.value": 10,
    "m.value.w": 11,
}


def test_a_name_mapping_reaches_every_level_and_ignores_what_it_does_not_name() -> None:
    assert ids(FILE, name_mapping=FULL_MAPPING) == EVERYTHING


def test_by_name_reaches_every_level() -> None:
    assert ids(FILE, missing_ids="by-name") == EVERYTHING


def test_by_position_takes_columns_in_order_at_every_level() -> None:
    assert ids(FILE, missing_ids="by-position") == EVERYTHING | {"s.extra": 4}
    renamed = Schema(NestedField(-1, "anything", IntegerType()))
    assert ids(renamed, missing_ids="by-position") == {"anything": 1}


@pytest.mark.parametrize("name", ["id", "ident"])
def test_any_alias_of_a_field_will_do(name: str) -> None:
    assert ids(Schema(NestedField(-1, name, IntegerType())), name_mapping=FULL_MAPPING) == {name: 1}


def test_two_aliases_of_one_field_in_one_file_are_refused() -> None:
    file = Schema(NestedField(-1, "id", IntegerType()), NestedField(-2, "ident", IntegerType()))
    with pytest.raises(SchemaResolutionError, match=r"'id' and 'ident' of f\.parquet are both field 1"):
        ids(file, name_mapping=FULL_MAPPING)


def test_a_mapping_without_an_id_hides_the_column_and_all_that_is_in_it() -> None:
    hidden = mapping('{"names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]}', '{"names": ["id"]}')
    assert ids(FILE, name_mapping=hidden) == {}


def test_dots_in_a_mapping_are_part_of_the_name() -> None:
    dots = mapping('{"field-id": 1, "names": ["a.b"]}', '{"field-id": 2, "names": ["a"]}')
    assert ids(Schema(NestedField(-1, "a.b", IntegerType())), name_mapping=dots) == {"a.b": 1}
    nested = Schema(NestedField(-1, "a", StructType(NestedField(-2, "b", IntegerType()))))
    assert ids(nested, name_mapping=dots) == {"a": 2}


def test_names_in_a_mapping_are_case_sensitive() -> None:
    assert ids(Schema(NestedField(-1, "ID", IntegerType())), name_mapping=FULL_MAPPING) == {}


@pytest.mark.parametrize("options", [{}, {"name_mapping": FULL_MAPPING}, {"missing_ids": "by-name"}], ids=str)
def test_a_file_with_any_id_is_taken_at_its_word(options: dict[str, Any]) -> None:
    file = Schema(
        NestedField(-1, "id", IntegerType()), NestedField(-2, "s", StructType(NestedField(3, "x", IntegerType())))
    )
    assert ids(file, **options) == {"s.x": 3}


def test_stored_lineage_columns_keep_their_reserved_ids() -> None:
    assert ids(Schema(NestedField(1, "id", IntegerType()), ROW_ID)) == {"id": 1, "_row_id": ROW_ID.field_id}


def test_no_ids_and_no_mapping_names_the_file_and_both_ways_out() -> None:
    with pytest.raises(MissingFieldIdsError) as error:
        ids(FILE)
    for part in ("f.parquet", 'missing_ids="by-name"', 'missing_ids="by-position"', "id, s, l, m, other"):
        assert part in str(error.value)


def test_a_file_without_columns_needs_no_ids() -> None:
    assert ids(Schema()) == {}


def test_reasons_for_unreadable_columns_follow_the_ids() -> None:
    file = Schema(NestedField(-1, "id", UnknownType()), NestedField(-2, "odd", UnknownType()))
    resolved = resolve(
        file, TABLE.fields, location="f", unreadable={-1: "interval", -2: "bitmap"}, name_mapping=FULL_MAPPING
    )
    assert resolved.unreadable == {1: "interval", -2: "bitmap"}


def test_two_stored_columns_with_one_id_are_refused() -> None:
    with pytest.raises(SchemaResolutionError, match="'a' and 'b'"):
        ids(Schema(NestedField(1, "a", IntegerType()), NestedField(1, "b", IntegerType())))
