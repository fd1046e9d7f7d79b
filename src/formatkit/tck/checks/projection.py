"""The columns that are asked for, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import BinaryType, IcebergType, ListType, LongType, MapType, NestedField, StringType, StructType

from formatkit.contract import Capability, FormatFile, ReadOptions
from formatkit.tck import expect, naive
from formatkit.tck.check import Layer, check
from formatkit.tck.checks.splits import REFUSAL, tiles
from formatkit.tck.datasets import ID, MANY_CHUNKS, NESTED, NULLS, WIDE, DataSet
from formatkit.tck.histories import schemas
from formatkit.tck.kits import FormatKit, Stored
from formatkit.tck.sources import CountingSource
from formatkit.tck.strategies import rows

_KILOBYTES = 256
_LARGE_VALUES = [Random(number).randbytes(1024) for number in range(_KILOBYTES)]  # noqa: S311 - data, no secret

LARGE = DataSet(
    "one large column",
    Schema(
        ID,
        NestedField(2, "large", BinaryType()),
        NestedField(3, "s", StructType(NestedField(4, "small", LongType()), NestedField(5, "large", BinaryType()))),
    ),
    [{1: number, 2: value, 3: {4: number, 5: value}} for number, value in enumerate(_LARGE_VALUES)],
)
"""A quarter of a megabyte that cannot be compressed, twice: in a column, and in a field beside a small one."""


@check("R3", "J11", "J12", layer=Layer.FORMAT)
def only_the_columns_that_are_asked_for_come_back(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    for columns in ([1], [0, 2], [2], [0, 1]):
        with kit.opened(stored.data) as file:
            projection = Schema(*(file.schema.fields[column] for column in columns))
            with file.read(ReadOptions(projection=projection)).batches as batches:
                widths = {kit.batches.bridge.to_arrow(batch).num_columns for batch in batches}
            expect.equal(widths, {len(columns)}, f"number of columns when {len(columns)} are asked for")
        compare_columns(kit, stored, columns)


@check("R3", "J11", layer=Layer.FORMAT)
def columns_come_back_in_the_order_of_the_projection(kit: FormatKit[Any]) -> None:
    stored = kit.write(WIDE.schema, WIDE.rows)
    compare_columns(kit, stored, range(len(WIDE.schema.fields)))
    compare_columns(kit, stored, range(4, len(WIDE.schema.fields), 41))


@check("R3", "X18", "X19", layer=Layer.FORMAT)
def columns_are_found_by_name_whatever_ids_the_projection_gives_them(kit: FormatKit[Any]) -> None:
    """Columns are found by name, whatever ids the projection gives them.

    The kernel puts the ids that it resolved into the projection: of a name mapping, where a file stores none.
    """
    stored = kit.write(NULLS.schema, NULLS.rows)
    with kit.opened(stored.data) as file:
        columns = file.schema.fields
        ids = [column.field_id + 1000 for column in reversed(columns)]
        renumbered = [column.model_copy(update={"field_id": new}) for column, new in zip(columns, ids, strict=True)]
        found = kit.read(file, ReadOptions(projection=Schema(*renumbered)), stored.schema)
    expect.equal_rows(found, stored.rows)


@check("R3", "J13", "X08", layer=Layer.FORMAT)
def an_empty_projection_gives_the_number_of_rows(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        for batch_rows in (1000, 7):
            found = kit.read(file, ReadOptions(projection=Schema(), batch_rows=batch_rows))
            expect.equal(len(found), len(stored.rows), f"number of rows in batches of {batch_rows}")


@check("R3", "R5", "X08", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def an_empty_projection_gives_the_number_of_rows_of_each_split(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        for split in tiles(len(stored.data), len(stored.data) // 5):
            found = kit.read(file, ReadOptions(projection=Schema(), split=split))
            expect.equal(len(found), len(kit.everything(stored, split=split)), f"number of rows of {split}")


@check("R3", layer=Layer.FORMAT)
def fields_inside_structs_lists_and_maps_are_pruned(kit: FormatKit[Any]) -> None:
    stored = kit.write(NESTED.schema, NESTED.rows)
    for names in (
        ["outer.n"],
        ["outer.point.y", "after"],
        ["outer.tags.element"],
        ["points.element.label"],
        ["groups.key", "groups.value.b"],
        ["id", "outer.point.x", "points.element.x", "groups.key", "groups.value.a", "after"],
    ):
        compare_fields(kit, stored, [NESTED.schema.find_field(name).field_id for name in names])


@check("R3", "J11", "J12", layer=Layer.FORMAT)
def any_part_of_a_random_schema_can_be_asked_for(kit: FormatKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema = data.draw(schemas(nanoseconds=kit.nanoseconds), label="schema")
        stored = kit.write(schema, data.draw(rows(schema, min_size=1), label="rows"))
        wanted = data.draw(st.sets(st.sampled_from(_leaves(schema.as_struct())), min_size=1), label="leaves")
        compare_fields(kit, stored, wanted)


@check(
    "R3", "X08", layer=Layer.FORMAT, when=Capability.COLUMN_SIZES, twin="column_sizes_that_are_not_declared_are_absent"
)
def bytes_of_columns_that_are_not_asked_for_are_not_read(kit: FormatKit[Any]) -> None:
    stored = replace(kit, small_chunks={}).write(LARGE.schema, LARGE.rows, batch_rows=_KILOBYTES)
    for names in ([], ["id"], ["s.small"], ["id", "s.small"]):
        source = CountingSource(stored.data)
        with kit.opened(source) as file:
            ids = {file.schema.find_field(name).field_id for name in names}
            projection = prune_columns(file.schema, ids, select_full_types=False)
            expect.equal(len(kit.read(file, ReadOptions(projection=projection))), len(stored.rows), "number of rows")
        few = f"bytes read of {len(stored.data)} for {names or 'no columns'}"
        expect.that(source.bytes_read < _KILOBYTES * 1024 // 2, f"too many {few}: {source.bytes_read}")


@check(
    "R3", layer=Layer.FORMAT, when=Capability.DICTIONARY, twin="dictionary_form_that_is_not_declared_changes_no_value"
)
def texts_come_back_in_dictionary_form_when_asked(kit: FormatKit[Any]) -> None:
    schema = Schema(NestedField(1, "text", StringType()))
    stored = kit.write(schema, [{1: value} for value in ("a", None, "b", "a", "a", "b")])
    compare_dictionaries(kit, stored)
    with kit.opened(stored.data) as file, file.read(_as_dictionaries(file)).batches as batches:
        forms = {form for batch in batches for form in kit.batches.form(batch)}
    expect.that(all("dictionary" in form for form in forms), f"dictionaries were asked for, found {forms}")


@check("R3", "X70", layer=Layer.FORMAT, unless=Capability.DICTIONARY)
def dictionary_form_that_is_not_declared_changes_no_value(kit: FormatKit[Any]) -> None:
    compare_dictionaries(kit, kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows))


def compare_columns(kit: FormatKit[Any], stored: Stored, columns: Iterable[int]) -> None:
    """Read top-level columns by their places."""
    with kit.opened(stored.data) as file:
        projection = Schema(*(file.schema.fields[column] for column in columns))
        output = Schema(*(stored.schema.fields[column] for column in columns))
        found = kit.read(file, ReadOptions(projection=projection), output)
    expected = [naive.narrow(row, output.as_struct()) for row in stored.rows]
    names = ", ".join(field.name for field in output.fields)
    expect.equal_rows(found, expected, f"columns {names if len(names) < 100 else names[:100] + '…'}")


def compare_fields(kit: FormatKit[Any], stored: Stored, wanted: Iterable[int]) -> None:
    """Read leaves by their ids, and nothing but them and what they are inside of."""
    with kit.opened(stored.data) as file:
        # Names and ids in the file may be others than those that were written, but the tree is the same.
        twins = dict(zip(_ids(stored.schema.as_struct()), _ids(file.schema.as_struct()), strict=True))
        output = prune_columns(stored.schema, set(wanted), select_full_types=False)
        projection = prune_columns(file.schema, {twins[leaf] for leaf in wanted}, select_full_types=False)
        found = kit.read(file, ReadOptions(projection=projection), output)
        with file.read(ReadOptions(projection=projection)).batches as batches:
            arrow = kit.batches.bridge.to_arrow(next(batches)).schema
    for field, held in zip(output.fields, arrow, strict=True):
        expect.equal(_widths(field.field_type, held.type), _widths(field.field_type), f"fields inside {field}")
    expect.equal_rows(found, [naive.narrow(row, output.as_struct()) for row in stored.rows], f"fields {output}")


def compare_dictionaries(kit: FormatKit[Any], stored: Stored) -> None:
    """Ask for dictionaries, and look at the values alone."""
    with kit.opened(stored.data) as file:
        expect.equal_rows(kit.read(file, _as_dictionaries(file), stored.schema), stored.rows)


def _as_dictionaries(file: FormatFile[Any]) -> ReadOptions:
    texts = frozenset(field.field_id for field in file.schema.fields if isinstance(field.field_type, StringType))
    return ReadOptions(projection=file.schema, dictionary_columns=texts)


def _widths(kind: IcebergType, held: Any = None) -> list[int]:
    """How many fields each struct inside a type has, or inside the Arrow type that holds it, if one is given."""
    match kind:
        case StructType():
            inner = [None] * len(kind.fields) if held is None else [each.type for each in held]
            below = zip(kind.fields, inner, strict=False)
            return [len(inner), *(width for field, one in below for width in _widths(field.field_type, one))]
        case ListType():
            return _widths(kind.element_type, held and held.value_type)
        case MapType():
            # Types without maps hold them as lists of pairs.
            value = held and (held.item_type if pa.types.is_map(held) else held.value_type.field(1).type)
            return _widths(kind.value_type, value)
    return []


def _ids(kind: IcebergType) -> list[int]:
    """The ids of all fields inside a type, in the order of the tree."""
    return [found for field in children(kind) for found in (field.field_id, *_ids(field.field_type))]


def _leaves(kind: IcebergType) -> list[int]:
    """The ids of fields that have none inside, keys of maps left out: they always come with their values."""
    fields = children(kind)[1:] if isinstance(kind, MapType) else children(kind)
    return [found for field in fields for found in (_leaves(field.field_type) or [field.field_id])]


def children(kind: IcebergType) -> list[NestedField]:
    """The fields directly inside a type."""
    match kind:
        case StructType():
            return list(kind.fields)
        case ListType():
            return [kind.element_field]
        case MapType():
            return [kind.key_field, kind.value_field]
    return []
