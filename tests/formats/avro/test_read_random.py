"""Random schemas, rows and projections: what fastavro encoded is what both decoders find."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField, StructType

from formatkit.contract import POS, Split
from formatkit.formats.avro.codecs import CODECS
from support.avro_reading import DECODERS, avro_file, open_bytes, read_batches
from support.avro_schemas import expected, files

CODEC = st.sampled_from(CODECS)


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("decoder", DECODERS)
@given(made=files(), codec=CODEC, block=st.integers(1, 5), batch_rows=st.integers(1, 9))
def test_rows_are_those_that_fastavro_wrote(decoder: str, made: Any, codec: str, block: int, batch_rows: int) -> None:
    schema, rows = made
    file = open_bytes(avro_file(schema, rows, codec, block))
    batches = read_batches(file, decoder=decoder, batch_rows=batch_rows)
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    # NaN is not equal to itself, but its text is.
    assert repr(rows_of(batches)) == repr([expected(schema, row) for row in rows])


@given(made=files(), choice=st.randoms(use_true_random=False), decoder=st.sampled_from(DECODERS))
@settings(max_examples=2 * settings().max_examples)
def test_some_columns_are_the_same_as_in_a_full_read(made: Any, choice: Any, decoder: str) -> None:
    file = open_bytes(avro_file(*made))
    fields = _pruned(file.schema.fields, choice)
    projection = Schema(*fields, POS)
    batches = read_batches(file, projection, decoder=decoder)
    full = [expected(made[0], row) for row in made[1]]
    wanted = [
        {each.name: _part(row[each.name], each) for each in fields} | {"_pos": number}
        for number, row in enumerate(full)
    ]
    assert repr(rows_of(batches)) == repr(wanted)


def _pruned(fields: tuple[NestedField, ...], choice: Any) -> list[NestedField]:
    """A part of the fields, structs below them included, but never no field of a struct."""
    kept = [each for each in fields if choice.random() < 0.5]
    return [
        NestedField(each.field_id, each.name, _pruned_type(each.field_type, choice), required=each.required)
        for each in kept
    ]


def _pruned_type(kind: Any, choice: Any) -> Any:
    match kind:
        case StructType(fields=fields):
            return StructType(*(_pruned(fields, choice) or fields[:1]))
        case ListType():
            inner = _pruned_type(kind.element_type, choice)
            return ListType(element_id=kind.element_id, element=inner, element_required=kind.element_required)
        case MapType():
            inner = _pruned_type(kind.value_type, choice)
            return MapType(
                key_id=kind.key_id,
                key_type=kind.key_type,
                value_id=kind.value_id,
                value_type=inner,
                value_required=kind.value_required,
            )
    return kind


def _part(value: Any, wanted: NestedField) -> Any:
    return None if value is None else _part_of(value, wanted.field_type)


def _part_of(value: Any, kind: Any) -> Any:
    match kind:
        case StructType(fields=fields):
            return {each.name: _part(value[each.name], each) for each in fields}
        case ListType():
            return [_part(each, kind.element_field) for each in value]
        case MapType():
            return [(key, _part(each, kind.value_field)) for key, each in value]
    return value


@given(made=files(), codec=CODEC, size=st.integers(1, 90), block=st.integers(1, 4))
def test_splits_of_any_size_hold_each_row_once_with_its_ordinal(made: Any, codec: str, size: int, block: int) -> None:
    data = avro_file(made[0], made[1], codec, block)
    file = open_bytes(data)
    projection = Schema(*file.schema.fields, POS)
    found = [
        row
        for start in range(0, len(data), size)
        for row in rows_of(read_batches(file, projection, split=Split(start, size)))
    ]
    assert repr(found) == repr(rows_of(read_batches(file, projection)))
    assert [row["_pos"] for row in found] == list(range(len(made[1])))
