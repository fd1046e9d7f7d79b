from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StructType

from formatkit.contract import POS, Encryption, OpenOptions, ReadOptions, Split, WriteOptions
from formatkit.errors import ColumnNotFoundError, UnsupportedError
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.formats.parquet.polars.plugin import PolarsParquetFormat
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind
from formatkit.tck import naive
from formatkit.tck.histories import histories
from formatkit.tck.kits import SMALL_CHUNKS
from formatkit.tck.rows import to_arrow
from formatkit.tck.strategies import predicates, rows
from support.foreign_parquet import (
    BYTE_ARRAY,
    DECIMAL,
    FIXED,
    INT32,
    INT64,
    LIST,
    MAP,
    REPEATED,
    REQUIRED,
    TIME_MILLIS,
    TIMESTAMP_MILLIS,
    UINT_32,
    UTF8,
    Node,
    group,
    leaf,
    parquet_bytes,
    with_schema,
)
from support.polars_parquet import frames, open_for_polars, rows_by_arrow, rows_by_polars

schemas = histories(most_changes=0).map(lambda versions: versions[0])
NUMBERS = parquet_bytes(pa.table({"n": range(100), "s": [f"v{n}" for n in range(100)]}), row_group_size=10)


@given(data=st.data())
def test_what_polars_decodes_is_what_was_written(data: st.DataObject) -> None:
    schema = data.draw(schemas, label="schema")
    written = data.draw(rows(schema, min_size=1), label="rows")
    predicate = data.draw(st.just(AlwaysTrue()) | predicates(schema), label="predicate")
    batch_rows = data.draw(st.integers(1, 13), label="batch rows")
    sink = MemorySink()
    with ParquetFormat().writer().open(sink, WriteOptions(schema=schema, properties=SMALL_CHUNKS)) as writer:
        for batch in to_arrow(schema, written).to_batches():
            writer.write(batch)
    assert sink.data is not None
    output = Schema(*open_for_polars(sink.data).schema.fields, POS)
    options = {"batch_rows": batch_rows, "predicate": bind(schema, predicate)}
    found = rows_by_polars(sink.data, output, **options)
    assert repr(found) == repr(rows_by_arrow(sink.data, output, **options))
    assert [row[-1] for row in found] == [
        position for position, row in enumerate(written) if naive.matches(row, schema, predicate)
    ]
    whole = open_for_polars(sink.data).read(ReadOptions(projection=output, batch_rows=batch_rows))
    assert whole.counters["row_groups_decoded_by_arrow"] == 0
    assert max(frame.height for frame in frames(whole)) <= batch_rows


INTS = pa.list_(pa.field("x", pa.int32()))
REQUIRED_INTS = pa.list_(pa.field("x", pa.int32(), nullable=False))
PAIRS = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("stored_as", "values", "column"),
    [
        (REQUIRED_INTS, [[1, 2], None, []], group("c", leaf("array", INT32, REPEATED), converted=LIST)),
        (INTS, [[1, None], None], group("c", group("bag", leaf("e", INT32), repetition=REPEATED), converted=LIST)),
        (
            PAIRS,
            [[("a", 1), ("a", None)], None, []],
            group(
                "c",
                group(
                    "anything", leaf("k", BYTE_ARRAY, REQUIRED, converted=UTF8), leaf("v", INT32), repetition=REPEATED
                ),
                converted=MAP,
            ),
        ),
        (pa.int32(), [1, None], leaf("c", INT32, converted=TIME_MILLIS)),
        (pa.int64(), [-1, None], leaf("c", INT64, converted=TIMESTAMP_MILLIS)),
        (pa.int64(), [-1, None], leaf("c", INT64, logical={8: {1: False, 2: {3: {}}}})),
        (pa.binary(3), [b"\xff\xff\x85"], leaf("c", FIXED, length=3, converted=DECIMAL, precision=6, scale=2)),
        (pa.binary(16), [b"a" * 16, None], leaf("c", FIXED, length=16, logical={14: {}})),
    ],
)
def test_layouts_of_other_writers_are_decoded_by_polars(
    stored_as: pa.DataType, values: list[Any], column: list[Node]
) -> None:
    table = pa.table({"c": pa.array(values, stored_as), "other": pa.array(range(len(values)), pa.int32())})
    data = with_schema(parquet_bytes(table, store_schema=False), column, leaf("other", INT32))
    result = open_for_polars(data).read(ReadOptions(projection=open_for_polars(data).schema))
    assert result.counters["row_groups_decoded_by_arrow"] == 0
    assert rows_by_polars(data) == rows_by_arrow(data)


@pytest.mark.parametrize(
    ("stored_as", "values", "column"),
    [
        (pa.int32(), [-1, None], leaf("c", INT32, converted=UINT_32)),
        (pa.binary(2), [b"\x00\x3e"], leaf("c", FIXED, length=2, logical={15: {}})),
        (pa.binary(), [b"\xff\x85"], leaf("c", BYTE_ARRAY, converted=DECIMAL, precision=5, scale=2)),
    ],
)
def test_what_polars_would_read_wrongly_is_decoded_by_arrow(
    stored_as: pa.DataType, values: list[Any], column: list[Node]
) -> None:
    table = pa.table({"c": pa.array(values, stored_as)})
    data = with_schema(parquet_bytes(table, store_schema=False), column)
    result = open_for_polars(data).read(ReadOptions(projection=open_for_polars(data).schema))
    assert result.counters["row_groups_decoded_by_arrow"] == 1
    assert rows_by_polars(data) == rows_by_arrow(data)


def test_int96_far_outside_the_range_of_nanoseconds_is_right() -> None:
    micros = pa.array([-(2**56), 0, 2**56], pa.timestamp("us"))
    data = parquet_bytes(pa.table({"c": micros}), use_deprecated_int96_timestamps=True)
    assert rows_by_polars(data) == rows_by_arrow(data)


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize(
    "options", [{"data_page_version": "1.0"}, {"data_page_version": "2.0"}, {"use_dictionary": False}]
)
def test_every_codec_and_page_format_is_read(codec: str, options: dict[str, Any]) -> None:
    table = pa.table({"a": [1, None, 3], "s": ["x", "y", None], "f": [math.inf, -0.0, None]})
    assert rows_by_polars(parquet_bytes(table, compression=codec, **options)) == [
        (1, "x", math.inf),
        (None, "y", -0.0),
        (3, None, None),
    ]


def test_only_the_chunks_of_wanted_leaves_are_fetched() -> None:
    class Counting(MemorySource):
        fetched = 0

        def read(self, offset: int, length: int) -> memoryview:
            self.fetched += length
            return super().read(offset, length)

    wide = pa.struct([("n", pa.int64()), ("text", pa.string())])
    table = pa.table({"s": pa.array([{"n": n, "text": "x" * 999} for n in range(200)], wide)})
    source = Counting(parquet_bytes(table, compression="none", use_dictionary=False))
    file = PolarsParquetFormat().reader().open(source, OpenOptions())
    struct: Any = file.schema.fields[0].field_type
    projection = Schema(NestedField(1, "s", StructType(struct.fields[0])))
    source.fetched = 0
    (frame,) = frames(file.read(ReadOptions(projection=projection)))
    assert frame.schema == {"s": pl.Struct({"n": pl.Int64()})}
    assert source.fetched < 5_000


def test_row_groups_that_cannot_match_are_skipped_and_positions_hold() -> None:
    file = open_for_polars(NUMBERS)
    predicate = bind(file.schema, "n >= 75")
    projection = Schema(*file.schema.fields, POS)
    result = file.read(ReadOptions(projection=projection, predicate=predicate, batch_rows=4))
    assert result.counters["row_groups_read"] == 3
    assert result.residual == predicate
    found = pl.concat(frames(result))
    assert found.to_series(2).to_list() == list(range(70, 100))
    all_match = file.read(ReadOptions(projection=projection, predicate=bind(file.schema, "n >= 70")))
    assert all_match.residual is AlwaysTrue()


def test_positions_hold_across_row_groups_that_are_left_out() -> None:
    file = open_for_polars(NUMBERS)
    projection = Schema(*file.schema.fields, POS)
    result = file.read(ReadOptions(projection=projection, predicate=bind(file.schema, "n < 10 or n >= 90")))
    assert pl.concat(frames(result)).to_series(2).to_list() == [*range(10), *range(90, 100)]


@pytest.mark.parametrize("size", [1, 50, 400, 10_000])
def test_splits_that_tile_the_file_return_each_row_once(size: int) -> None:
    splits = [Split(start, min(size, len(NUMBERS) - start)) for start in range(0, len(NUMBERS), size)]
    found = [row for split in splits for row in rows_by_polars(NUMBERS, split=split)]
    assert found == rows_by_polars(NUMBERS)


@pytest.mark.parametrize("positions", [False, True])
def test_without_stored_columns_rows_are_counted_and_nothing_is_decoded(positions: bool) -> None:
    file = open_for_polars(NUMBERS)
    projection = Schema(POS) if positions else Schema()
    found = frames(file.read(ReadOptions(projection=projection, batch_rows=30)))
    assert [frame.height for frame in found] == [30, 30, 30, 10]
    assert [frame.width for frame in found] == [int(positions)] * 4
    if positions:
        assert pl.concat(found).to_series().to_list() == list(range(100))


def test_small_row_groups_share_batches() -> None:
    file = open_for_polars(NUMBERS)
    assert [frame.height for frame in frames(file.read(ReadOptions(projection=file.schema)))] == [100]


def test_a_read_may_be_left_early() -> None:
    file = open_for_polars(NUMBERS)
    stream = file.read(ReadOptions(projection=file.schema, batch_rows=1)).batches
    first = next(stream)
    stream.close()
    assert first.rows() == [(0, "v0")]
    assert list(stream) == []


def test_a_column_that_the_file_lacks_is_refused() -> None:
    with pytest.raises(ColumnNotFoundError, match="absent"):
        open_for_polars(NUMBERS).read(ReadOptions(projection=Schema(NestedField(1, "absent", LongType()))))


def test_keys_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="Arrow batches only"):
        PolarsParquetFormat().reader().open(MemorySource(NUMBERS), OpenOptions(encryption=Encryption(key=b"k" * 16)))


def test_an_unreadable_column_is_null_and_leaves_the_others() -> None:
    decimal = leaf("c", FIXED, length=20, converted=5, precision=45, scale=0)
    table = pa.table({"c": pa.array([b"x" * 20], pa.binary(20)), "n": pa.array([1], pa.int32())})
    data = with_schema(parquet_bytes(table, store_schema=False), decimal, leaf("n", INT32))
    assert rows_by_polars(data) == [(None, 1)]


def test_lists_of_parts_of_structs_are_decoded() -> None:
    kind = pa.list_(pa.struct([("d", pa.decimal128(20, 2)), ("n", pa.int64())]))
    table = pa.table({"l": pa.array([[{"d": Decimal("1.10"), "n": 1}, None], None, []], kind)})
    data = parquet_bytes(table)
    listed: Any = open_for_polars(data).schema.fields[0].field_type
    part = ListType(listed.element_id, StructType(listed.element_type.fields[0]), element_required=False)
    assert rows_by_polars(data, Schema(NestedField(1, "l", part))) == [([(Decimal("1.10"),), None],), (None,), ([],)]
