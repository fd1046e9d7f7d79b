"""Reading by pages returns exactly the rows that match, whatever the layout of the file."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from formatkit.contract import POS
from formatkit.formats.parquet import column_stream, selective
from formatkit.kernel import bind
from formatkit.tck import naive, strategies
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from support.foreign_parquet import parquet_bytes
from support.parquet_reading import open_bytes, read_batches

SCHEMA = Schema(
    NestedField(1, "number", IntegerType(), required=False),
    NestedField(2, "text", StringType(), required=False),
    NestedField(3, "ratio", DoubleType(), required=False),
    NestedField(4, "price", DecimalType(9, 2), required=False),
    NestedField(5, "moment", TimestamptzType(), required=True),
    NestedField(6, "raw", BinaryType(), required=False),
    NestedField(7, "key", UUIDType(), required=False),
    NestedField(8, "code", FixedType(3), required=False),
    NestedField(9, "tags", ListType(10, StringType(), element_required=False), required=False),
    NestedField(11, "counts", MapType(12, StringType(), 13, LongType(), value_required=False), required=False),
    NestedField(
        14,
        "place",
        StructType(
            NestedField(15, "city", StringType(), required=False),
            NestedField(16, "level", IntegerType(), required=False),
            NestedField(17, "history", ListType(18, LongType(), element_required=True), required=False),
        ),
        required=False,
    ),
)
CODECS = ["none", *(codec for codec in ("snappy", "gzip", "brotli", "lz4", "zstd") if pa.Codec.is_available(codec))]


@pytest.fixture(autouse=True)
def _always_by_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files take the way of large ones."""
    monkeypatch.setattr(selective, "_SMALL_ROW_GROUP", 0)
    monkeypatch.setattr(column_stream, "_WORTHWHILE", 2.0)
    monkeypatch.setattr(column_stream, "_MIN_DECODED_ROWS", 1)
    monkeypatch.setattr(column_stream, "_MAX_DECODED_ROWS", 50)


layouts = st.fixed_dictionaries(
    {
        "row_group_size": st.sampled_from([40, 1000]),
        "data_page_size": st.sampled_from([16, 100, 1_000_000]),
        "write_batch_size": st.sampled_from([2, 7]),
        "use_dictionary": st.booleans(),
        "dictionary_pagesize_limit": st.sampled_from([30, 1_000_000]),
        "compression": st.sampled_from(CODECS),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "write_page_index": st.sampled_from([True, True, True, False]),
        "store_decimal_as_integer": st.booleans(),
    }
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pool=strategies.rows(SCHEMA, min_size=2, max_size=6),
    size=st.sampled_from([2, 50, 150]),
    seed=st.integers(0, 2**32),
    is_sorted=st.booleans(),
    layout=layouts,
    predicate=strategies.predicates(SCHEMA, max_leaves=3),
    batch_rows=st.sampled_from([1, 10, 1000]),
)
def test_the_rows_are_those_of_a_naive_filter(
    pool: list[dict[int, Any]],
    size: int,
    seed: int,
    is_sorted: bool,
    layout: dict[str, Any],
    predicate: BooleanExpression,
    batch_rows: int,
) -> None:
    choose = random.Random(seed)
    numbers = [choose.randrange(len(pool)) for _ in range(size)]
    rows = [pool[number] for number in (sorted(numbers) if is_sorted else numbers)]
    file = open_bytes(parquet_bytes(to_arrow(SCHEMA, rows), **layout))
    options = {"predicate": bind(SCHEMA, predicate), "batch_rows": batch_rows}
    batches = read_batches(file, Schema(*SCHEMA.fields, POS), **options)
    positions = [position for batch in batches for position in batch.column("_pos").to_pylist()]
    expected = [position for position, row in enumerate(rows) if naive.matches(row, SCHEMA, predicate)]
    assert positions == expected
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    found = [
        row for batch in batches for row in from_arrow(SCHEMA, pa.Table.from_batches([batch.drop_columns("_pos")]))
    ]
    assert [comparable([row]) for row in found] == [comparable([rows[position]]) for position in expected]
