"""Random schemas and rows: what was written is what pyarrow and our reader read back."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StringType, StructType

from formatkit.tck.rows import comparable, from_arrow, to_arrow
from formatkit.tck.strategies import leaf_types, rows
from support.parquet_reading import open_bytes, read_batches
from support.parquet_writing import metadata_of, written


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    ids = itertools.count(1)
    return Schema(*draw(_fields(ids, depth=2)))


@st.composite
def _fields(draw: st.DrawFn, ids: Iterator[int], depth: int) -> list[NestedField]:
    count = draw(st.integers(1, 3))
    return [
        NestedField(next(ids), f"f{i}", draw(_types(ids, depth)), required=draw(st.booleans())) for i in range(count)
    ]


@st.composite
def _types(draw: st.DrawFn, ids: Iterator[int], depth: int) -> IcebergType:
    kind = draw(st.sampled_from(["leaf", "leaf", "struct", "list", "map"] if depth else ["leaf"]))
    if kind == "struct":
        return StructType(*draw(_fields(ids, depth - 1)))
    if kind == "list":
        return ListType(next(ids), draw(_types(ids, depth - 1)), element_required=draw(st.booleans()))
    if kind == "map":
        key_id, value_id = next(ids), next(ids)
        value = draw(_types(ids, depth - 1))
        return MapType(key_id, StringType(), value_id, value, value_required=draw(st.booleans()))
    return draw(leaf_types())


@given(data=st.data(), schema=schemas(), group_rows=st.integers(1, 5), batch_rows=st.integers(1, 5))
def test_random_rows_survive(data: st.DataObject, schema: Schema, group_rows: int, batch_rows: int) -> None:
    expected: list[Any] = data.draw(rows(schema, min_size=1))
    batches = to_arrow(schema, expected, ids=False).to_batches(max_chunksize=batch_rows)
    properties = {"write.parquet.row-group-limit": str(group_rows)}
    content, result = written(schema, batches, properties=properties)
    assert result.row_count == len(expected)
    assert metadata_of(content).num_row_groups == -(-len(expected) // group_rows)
    stored = pq.read_table(io.BytesIO(content))
    assert comparable(from_arrow(schema, stored)) == comparable(expected)
    file = open_bytes(content)
    assert file.schema.as_struct() == schema.as_struct()
    assert comparable(from_arrow(schema, pa.Table.from_batches(read_batches(file)))) == comparable(expected)
