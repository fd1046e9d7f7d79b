"""Files without ids: a name mapping, the caller's word, or an error; never a guess."""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from formatkit.contract import Capability
from formatkit.errors import MissingFieldIdsError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.mappings import mapped, mapped_fields, name_mapping
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import file_of

_ID = NestedField(1, "id", LongType())
_A, _B = NestedField(2, "a", IntegerType()), NestedField(3, "b", StringType())
_FLAT = Schema(_ID, _A, _B)
_ROWS = [(0, 1, "x"), (1, None, None), (2, 3, "y"), (3, 1, "x")]


def _leaf(number: int) -> StructType:
    return StructType(NestedField(number, "leaf", IntegerType()))


_NESTED = Schema(
    NestedField(2, "s", _leaf(20)),
    NestedField(3, "l", ListType(4, _leaf(21), element_required=False)),
    NestedField(5, "m", MapType(6, StringType(), 7, _leaf(22), value_required=False)),
    _ID,
)
_NESTED_ROWS: list[tuple[Any, ...]] = [
    ({20: 1}, [{21: 2}, None], [("k", {22: 3})], 0),
    (None, None, None, 1),
    ({20: None}, [], [("k", None)], 2),
]


@check("P2", "J44", layer=Layer.SCAN)
def a_file_without_ids_is_read_through_the_mapping(kit: ScanKit[Any]) -> None:
    mapping = name_mapping(mapped_fields([_FLAT.as_struct()]))
    kit.without_ids().compare([_FLAT], [file_of(_FLAT, *_ROWS)], properties=mapping)


@check("P2", "P5", "X18", layer=Layer.SCAN)
def filters_go_through_a_mapping_whose_ids_are_no_positions(kit: ScanKit[Any]) -> None:
    stored = Schema(_B, NestedField(9, "ignored", IntegerType()), _A, _ID)
    table = Schema(_ID, NestedField(2, "renamed", IntegerType()), NestedField(3, "a", StringType()))
    rows = [("x", 100, 1, 0), (None, 200, None, 1), ("y", 300, 3, 2), ("x", 1, 2, 3)]
    mapping = name_mapping([mapped(1, "id"), mapped(2, "a"), mapped(3, "b")])
    with kit.without_ids().built([table], [file_of(stored, *rows)], properties=mapping) as built:
        for where in (None, "renamed = 1", "a = 'y'", "renamed is null", "a != 'x'"):
            built.compare(where)
            built.compare(where, select=("id",))


@check("P2", "X56", layer=Layer.SCAN)
def a_mapping_reaches_into_structs_lists_and_maps(kit: ScanKit[Any]) -> None:
    mapping = name_mapping(mapped_fields([_NESTED.as_struct()]))
    with kit.without_ids().built([_NESTED], [file_of(_NESTED, *_NESTED_ROWS)], properties=mapping) as table:
        table.compare()
        table.compare("s.leaf = 1", select=("id", "m"))


@check("P2", "X56", layer=Layer.SCAN)
def a_field_may_have_several_names_and_dots_are_letters(kit: ScanKit[Any]) -> None:
    stored = Schema(NestedField(1, "key", LongType()), NestedField(2, "a.b", IntegerType()), _B)
    file = file_of(stored, *_ROWS)
    with kit.format.opened(kit.format.write(stored, file.rows).data) as opened:
        # Some formats cannot store a dot in a name and put something else in its place.
        dotted = opened.schema.fields[1].name
    mapping = name_mapping([mapped(1, "id", "key"), mapped(2, "other", dotted), mapped(3, "b"), mapped(4)])
    kit.without_ids().compare([_FLAT], [file], properties=mapping)


@check("P2", "X56", layer=Layer.SCAN)
def columns_that_are_not_mapped_are_never_read(kit: ScanKit[Any]) -> None:
    """A column that the mapping does not know, or knows to be none of the table's, is not read."""
    for mapping in ([mapped(1, "id"), mapped(3, "b")], [mapped(1, "id"), mapped(None, "a"), mapped(3, "b")]):
        with kit.without_ids().built([_FLAT], [file_of(_FLAT, *_ROWS)], properties=name_mapping(mapping)) as table:
            expected = [{1: number, 2: None, 3: text} for number, _, text in _ROWS]
            expect.equal_rows(table.rows(table.scan()), expected)


@check(
    "P2",
    "X57",
    layer=Layer.SCAN,
    when=Capability.FIELD_IDS,
    twin="a_format_without_ids_is_read_through_a_mapping_only",
)
def a_file_that_stores_some_ids_is_taken_at_its_word(kit: ScanKit[Any]) -> None:
    mapping = name_mapping(mapped_fields([_NESTED.as_struct()]))
    hidden = {3, 4, 20, 21}
    file = file_of(_NESTED, *_NESTED_ROWS)
    with kit.without_ids(hidden).built([_NESTED], [file], properties=mapping) as table:
        expected = [{2: s and {20: None}, 3: None, 5: m, 1: number} for s, _, m, number in _NESTED_ROWS]
        expect.equal_rows(table.rows(table.scan()), expected)


@check("P2", "X58", layer=Layer.SCAN)
def a_file_without_ids_is_refused_without_a_mapping(kit: ScanKit[Any]) -> None:
    with (
        kit.without_ids().built([_FLAT], [file_of(_FLAT, *_ROWS)]) as table,
        expect.raises(MissingFieldIdsError, when="reading a file without ids"),
    ):
        table.rows(table.scan())


@check("P2", "X58", layer=Layer.SCAN)
def the_caller_may_say_that_names_or_positions_tell_columns(kit: ScanKit[Any]) -> None:
    with kit.without_ids().built([_NESTED], [file_of(_NESTED, *_NESTED_ROWS)]) as table:
        for missing_ids in ("by-name", "by-position"):
            table.compare("id > 0 or s.leaf = 1", missing_ids=missing_ids)
            table.compare("s.leaf = 1", select=("l", "id"), missing_ids=missing_ids)


@check("P2", "X58", layer=Layer.SCAN, unless=Capability.FIELD_IDS)
def a_format_without_ids_is_read_through_a_mapping_only(kit: ScanKit[Any]) -> None:
    file = file_of(_FLAT, *_ROWS)
    kit.compare([_FLAT], [file])
    with (
        kit.without_ids(hidden=()).built([_FLAT], [file]) as table,
        expect.raises(MissingFieldIdsError, when="reading a file of a format that does not declare ids"),
    ):
        table.rows(table.scan())
