from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysFalse
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, ListType, LongType, NestedField, StringType, StructType

from formatkit.batches.arrow import ArrowBatch
from formatkit.errors import ColumnNotFoundError, ConfigurationError, InvalidDataError
from formatkit.kernel import bind
from formatkit.tck.naive import matches
from formatkit.tck.rows import to_arrow
from formatkit.tck.strategies import leaf_types, rows
from formatkit.write.operations.keys import KeyIndex, key_columns

IDS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "part", StringType()),
    NestedField(3, "inside", StructType(NestedField(4, "id", LongType())), required=False),
    NestedField(5, "ratio", DoubleType()),
    NestedField(6, "list", ListType(7, LongType())),
    identifier_field_ids=[1],
)


OPS = ArrowBatch()


def canonical(schema: Schema, given_rows: list[dict[int, Any]]) -> list[pa.RecordBatch]:
    evolve = OPS.evolve(schema, schema, {})
    return [evolve(batch) for batch in to_arrow(schema, given_rows).to_batches(max_chunksize=3)]


def index_of(schema: Schema, names: list[str] | None, given_rows: list[dict[int, Any]]) -> KeyIndex:
    return KeyIndex(schema, key_columns(schema, names), canonical(schema, given_rows), OPS)


@st.composite
def keyed_schemas(draw: st.DrawFn) -> tuple[Schema, list[str]]:
    """Up to three columns of any type that may be a key, one of them perhaps in a struct."""
    usable = leaf_types().filter(lambda kind: not isinstance(kind, FloatType | DoubleType))
    kinds = draw(st.lists(usable, min_size=1, max_size=3))
    fields = [NestedField(number + 1, f"k{number}", kind) for number, kind in enumerate(kinds)]
    if draw(st.booleans()):
        inner = NestedField(20, "x", draw(usable))
        return Schema(*fields, NestedField(10, "s", StructType(inner))), [*(f.name for f in fields), "s.x"]
    return Schema(*fields), [field.name for field in fields]


def key_of(row: dict[int, Any]) -> tuple[Any, ...]:
    return tuple((value or {}).get(20) if number == 10 else value for number, value in sorted(row.items()))


@given(st.data())
def test_rows_are_found_by_their_keys(data: st.DataObject) -> None:
    schema, names = data.draw(keyed_schemas())
    drawn = data.draw(rows(schema, max_size=8))
    incoming = list({key_of(row): row for row in drawn if None not in key_of(row)}.values())
    stored = data.draw(rows(schema, max_size=8)) + incoming
    index = index_of(schema, names, incoming)
    by_key = {key_of(row): number for number, row in enumerate(incoming)}
    found = [int(row) for batch in canonical(schema, stored) for row in index.rows_for(batch)]
    assert found == [by_key.get(key_of(row), -1) for row in stored]
    where = bind(schema, index.filter())
    assert all(matches(row, schema, where) for row, number in zip(stored, found, strict=True) if number >= 0)


@pytest.mark.parametrize("size", [10, 2000])
def test_a_filter_leads_to_the_keys_and_not_far_beyond(size: int) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))
    incoming = [{1: number * 10, 2: f"{number:05}"} for number in range(size)]
    where = index_of(schema, ["id", "s"], incoming).filter()
    assert all(matches(row, schema, where) for row in incoming)
    assert not matches({1: -1, 2: "00000"}, schema, where)
    assert not matches({1: 10 * size, 2: "00000"}, schema, where)
    assert not matches({1: 0, 2: "a"}, schema, where)
    assert not matches({1: None, 2: "00000"}, schema, where)


def test_without_rows_nothing_is_looked_for() -> None:
    assert index_of(IDS, None, []).filter() == AlwaysFalse()


def test_identifier_fields_are_the_keys_unless_columns_are_named() -> None:
    assert [path[-1].field_id for path in key_columns(IDS, None)] == [1]
    assert [path[-1].field_id for path in key_columns(IDS, ["part", "inside.id"])] == [2, 4]
    assert [path[-1].field_id for path in key_columns(IDS, ["PART"], case_sensitive=False)] == [2]


@pytest.mark.parametrize("name", ["ratio", "list", "inside", "list.element"])
def test_columns_that_cannot_identify_a_row_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot identify a row"):
        key_columns(IDS, [name])


def test_unknown_and_absent_keys_are_refused() -> None:
    with pytest.raises(ColumnNotFoundError):
        key_columns(IDS, ["nobody"])
    with pytest.raises(ConfigurationError, match="join_columns"):
        key_columns(Schema(NestedField(1, "a", LongType())), None)


def test_rows_with_the_same_key_are_refused() -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))
    given_rows = [{1: 1, 2: "a"}, {1: 1, 2: "b"}, {1: 2, 2: "a"}, {1: 1, 2: "b"}]
    with pytest.raises(InvalidDataError, match=r"rows 1 and 3 of the data have the same key, id = 1, s = b"):
        index_of(schema, ["id", "s"], given_rows)


def test_rows_without_a_key_are_refused() -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    with pytest.raises(InvalidDataError, match="row 4 of the data has no key: column 'id' is null"):
        index_of(schema, ["id"], [{1: n} for n in (0, 1, 2, 3, None)])
