"""Which rows and columns a read returns: projections, splits, batch sizes, positions, dictionaries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField, StructType

from formatkit.contract import DEFAULT_BATCH_ROWS, POS, ByteRange, OpenOptions, ReadOptions, Split
from formatkit.errors import ColumnNotFoundError
from formatkit.formats.parquet.reader import ParquetDataFile, ParquetReader
from formatkit.io import MemorySource
from support.foreign_parquet import parquet_bytes
from support.parquet_reading import columns_named, open_bytes, read_batches, read_rows

ROWS = 1000
ROW_GROUP = 128


def nested_rows(count: int = ROWS) -> list[dict[str, Any]]:
    choose = random.Random(7)

    def struct(number: int) -> dict[str, Any] | None:
        deep = choose.choice([None, {"x": number, "y": f"d{number}"}])
        return choose.choice([None, {"a": number, "b": f"s{number}", "deep": deep}])

    return [
        {
            "id": number,
            "s": struct(number),
            "l": choose.choice([None, [], [{"p": number, "q": None}, None, {"p": None, "q": "z"}]]),
            "m": choose.choice([None, [], [("k", {"v": number, "w": [number]}), ("j", None)]]),
            "name": choose.choice([None, f"n{number % 7}"]),
        }
        for number in range(count)
    ]


SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field(
            "s",
            pa.struct(
                [("a", pa.int64()), ("b", pa.string()), ("deep", pa.struct([("x", pa.int64()), ("y", pa.string())]))]
            ),
        ),
        pa.field("l", pa.list_(pa.struct([("p", pa.int64()), ("q", pa.string())]))),
        pa.field("m", pa.map_(pa.string(), pa.struct([("v", pa.int64()), ("w", pa.list_(pa.int64()))]))),
        pa.field("name", pa.string()),
    ]
)
EXPECTED = nested_rows()


@pytest.fixture(scope="module")
def data() -> bytes:
    table = pa.Table.from_pylist(EXPECTED, SCHEMA)
    return parquet_bytes(table, row_group_size=ROW_GROUP, data_page_size=256)


@pytest.fixture
def file(data: bytes) -> ParquetDataFile:
    return open_bytes(data)


class CountingSource(MemorySource):
    """Remembers which bytes were asked for."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.ranges: list[ByteRange] = []
        self.opened = 0

    def read(self, offset: int, length: int) -> memoryview:
        self.ranges.append(ByteRange(offset, length))
        return super().read(offset, length)

    def open(self) -> Any:
        self.opened += 1
        return super().open()


def pruned(field: NestedField, keep: dict[str, Any]) -> NestedField:
    """The field with only the children named in `keep`, at every level."""

    def prune(kind: Any) -> Any:
        match kind:
            case StructType():
                return StructType(*(pruned(child, keep) for child in kind.fields if child.name in keep))
            case ListType():
                return ListType(kind.element_id, prune(kind.element_type), kind.element_required)
            case MapType():
                return MapType(kind.key_id, kind.key_type, kind.value_id, prune(kind.value_type), kind.value_required)
        return kind

    return NestedField(field.field_id, field.name, prune(field.field_type), required=field.required)


def test_all_columns_come_back_as_they_were_written(file: ParquetDataFile) -> None:
    assert read_rows(file) == EXPECTED
    assert file.row_count == ROWS


def test_the_order_of_the_projection_is_the_order_of_the_columns(file: ParquetDataFile) -> None:
    projection = Schema(file.schema.find_field("name"), file.schema.find_field("id"))
    batch = read_batches(file, projection)[0]
    assert batch.schema.names == ["name", "id"]
    assert batch.to_pylist()[:3] == [{"name": row["name"], "id": row["id"]} for row in EXPECTED[:3]]


def test_a_projection_of_leaves_inside_structs_lists_and_maps_returns_these_leaves_only(file: ParquetDataFile) -> None:
    keep = dict.fromkeys(("a", "deep", "y", "q", "w"))
    projection = Schema(*(pruned(file.schema.find_field(name), keep) for name in ("s", "l", "m")))

    def part(row: dict[str, Any]) -> dict[str, Any]:
        s, elements, entries = row["s"], row["l"], row["m"]
        return {
            "s": s and {"a": s["a"], "deep": s["deep"] and {"y": s["deep"]["y"]}},
            "l": elements and [element and {"q": element["q"]} for element in elements],
            "m": entries and [(key, value and {"w": value["w"]}) for key, value in entries],
        }

    assert read_rows(file, projection) == [part(row) for row in EXPECTED]


def test_only_the_chunks_of_projected_leaves_are_fetched(data: bytes) -> None:
    plain = open_bytes(data)
    keep = dict.fromkeys(("deep", "x"))
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    damaged = bytearray(data)
    for row_group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            chunk = metadata.row_group(row_group).column(leaf)
            if chunk.path_in_schema != "s.deep.x":
                start = min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
                damaged[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    projection = Schema(pruned(plain.schema.find_field("s"), keep))
    assert read_rows(open_bytes(bytes(damaged)), projection) == read_rows(plain, projection)


@pytest.mark.parametrize("batch_rows", [DEFAULT_BATCH_ROWS, 50_000, 200_000])
def test_batches_that_are_cut_from_larger_ones_have_every_row_once(batch_rows: int) -> None:
    rows = 150_000
    table = pa.table({"id": range(rows), "city": pa.array(["Ulm", "Bonn", None] * (rows // 3))})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=70_000)
    file = open_bytes(sink.getvalue().to_pybytes())
    batches = read_batches(file, columns_named(file, "id", "city", positions=True), batch_rows=batch_rows)
    assert max(batch.num_rows for batch in batches) <= batch_rows
    found = pa.Table.from_batches(batches)
    assert found.column("_pos").to_pylist() == found.column("id").to_pylist() == list(range(rows))
    assert found.column("city").equals(table.column("city"))


@pytest.mark.parametrize("batch_rows", [1, 7, ROW_GROUP - 1, ROW_GROUP, ROW_GROUP + 1, 10 * ROWS])
def test_no_batch_is_larger_than_asked_for_and_order_and_positions_hold(file: ParquetDataFile, batch_rows: int) -> None:
    projection = columns_named(file, "id", "name", positions=True)
    batches = read_batches(file, projection, batch_rows=batch_rows)
    assert max(batch.num_rows for batch in batches) <= batch_rows
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"id": row["id"], "name": row["name"], "_pos": row["id"]} for row in EXPECTED]


def test_small_row_groups_share_batches(file: ParquetDataFile) -> None:
    assert len(read_batches(file, columns_named(file, "id"))) == 1


@pytest.mark.parametrize("with_positions", [False, True])
def test_a_projection_without_stored_columns_counts_rows_and_opens_nothing(data: bytes, with_positions: bool) -> None:
    source = CountingSource(data)
    file = ParquetReader().open(source, OpenOptions())
    before = len(source.ranges)
    batches = read_batches(file, Schema(*([POS] if with_positions else [])), batch_rows=300)
    assert [batch.num_rows for batch in batches] == [300, 300, 300, 100]
    assert [row.get("_pos") for batch in batches for row in batch.to_pylist()] == (
        list(range(ROWS)) if with_positions else [None] * ROWS
    )
    assert (len(source.ranges), source.opened) == (before, 0)


@pytest.mark.parametrize("size", [64, 997, 4096, 5003])
def test_splits_that_tile_the_file_return_each_row_once_and_in_order(data: bytes, size: int) -> None:
    file = open_bytes(data)
    projection = columns_named(file, "id", positions=True)
    splits = [Split(start, min(size, len(data) - start)) for start in range(0, len(data), size)]
    found = [row for split in splits for row in read_rows(file, projection, split=split)]
    assert found == [{"id": number, "_pos": number} for number in range(ROWS)]


def test_splits_at_split_offsets_hold_one_row_group_each(data: bytes) -> None:
    file = open_bytes(data)
    offsets = [*file.split_offsets, len(data)]
    assert offsets == sorted(offsets)
    assert offsets[0] == 4
    for index, (start, end) in enumerate(pairwise(offsets)):
        rows = read_rows(file, columns_named(file, "id"), split=Split(start, end - start))
        assert [row["id"] for row in rows] == list(range(ROWS))[index * ROW_GROUP : (index + 1) * ROW_GROUP]


def test_a_row_group_belongs_to_the_split_that_holds_its_midpoint(data: bytes) -> None:
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    group = metadata.row_group(2)
    start = min(group.column(0).dictionary_page_offset or 0, group.column(0).data_page_offset)
    middle = start + sum(group.column(leaf).total_compressed_size for leaf in range(group.num_columns)) // 2
    file = open_bytes(data)
    count = columns_named(file, "id")
    assert len(read_rows(file, count, split=Split(middle, 1))) == ROW_GROUP
    assert read_rows(file, count, split=Split(middle + 1, 1)) == []
    assert read_rows(file, count, split=Split(middle - 1, 1)) == []
    assert read_rows(file, count, split=Split(middle, 0)) == []


def test_the_ids_of_the_projection_may_differ_from_those_of_the_file(file: ParquetDataFile) -> None:
    projection = Schema(NestedField(77, "name", file.schema.find_type("name")))
    assert read_rows(file, projection) == [{"name": row["name"]} for row in EXPECTED]


def test_a_column_that_the_file_lacks_is_refused(file: ParquetDataFile) -> None:
    projection = Schema(NestedField(1, "nowhere", file.schema.find_type("name")))
    with pytest.raises(ColumnNotFoundError, match="nowhere"):
        file.read(ReadOptions(projection=projection))


def test_columns_come_in_dictionary_form_when_asked(file: ParquetDataFile) -> None:
    name = file.schema.find_field("name")
    projection = columns_named(file, "id", "name")
    batches = read_batches(file, projection, dictionary_columns=frozenset({name.field_id}), batch_rows=100)
    assert {batch.schema.field("name").type for batch in batches} == {pa.dictionary(pa.int32(), pa.string())}
    assert [value for batch in batches for value in batch["name"].to_pylist()] == [row["name"] for row in EXPECTED]


def test_a_file_can_be_read_many_times_and_by_several_readers_at_once(file: ParquetDataFile) -> None:
    projection = columns_named(file, "id")
    first = file.read(ReadOptions(projection=projection, batch_rows=10)).batches
    second = file.read(ReadOptions(projection=projection, batch_rows=10)).batches
    interleaved = [batch["id"][0].as_py() for pair in zip(first, second, strict=True) for batch in pair]
    assert interleaved == [start for start in range(0, ROWS, 10) for _ in range(2)]


def test_batches_outlive_the_file_and_its_source(data: bytes) -> None:
    source = MemorySource(data)
    file = ParquetReader().open(source, OpenOptions())
    batches = read_batches(file)
    file.close()
    source.close()
    assert [row for batch in batches for row in batch.to_pylist()] == EXPECTED


@pytest.mark.parametrize("options", [{}, {"version": "1.0"}, {"data_page_version": "2.0"}, {"use_dictionary": False}])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
def test_every_codec_and_page_format_is_read(codec: str, options: dict[str, Any]) -> None:
    table = pa.Table.from_pylist(EXPECTED[:100], SCHEMA)
    assert read_rows(open_bytes(parquet_bytes(table, compression=codec, **options))) == EXPECTED[:100]


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"])
def test_every_encoding_of_numbers_is_read(encoding: str) -> None:
    table = pa.table({"a": pa.array([1, None, -5] * 50)})
    data = parquet_bytes(table, use_dictionary=False, column_encoding={"a": encoding})
    assert read_rows(open_bytes(data)) == table.to_pylist()


def test_a_file_without_rows_has_no_batches_and_no_split_offsets() -> None:
    file = open_bytes(parquet_bytes(SCHEMA.empty_table()))
    assert file.row_count == 0
    assert file.split_offsets == ()
    assert read_batches(file) == []
    assert read_batches(file, Schema()) == []


def test_empty_row_groups_do_not_disturb_positions() -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1, 2]})
    with pq.ParquetWriter(sink, table.schema) as writer:
        for part in (table.slice(0, 0), table, table.slice(0, 0), table):
            writer.write_table(part)
    file = open_bytes(sink.getvalue().to_pybytes())
    assert [row["_pos"] for row in read_rows(file, columns_named(file, "a", positions=True))] == [0, 1, 2, 3]
    assert len(file.split_offsets) == 2


def test_a_plain_read_leaves_no_residual_and_counts_row_groups(file: ParquetDataFile) -> None:
    result = file.read(ReadOptions(projection=file.schema))
    assert result.residual == AlwaysTrue()
    assert result.counters["row_groups"] == result.counters["row_groups_read"] == 8


def test_inspection_shows_what_the_footer_knows() -> None:
    table = pa.table({"a": range(100), "b": ["x"] * 100})
    data = parquet_bytes(table, row_group_size=50, compression="zstd", write_page_index=True)
    facts = open_bytes(data).describe()
    assert {
        key: facts[key] for key in ("rows", "row_groups", "codecs", "page_index", "bloom_filters", "encrypted")
    } == {
        "rows": 100,
        "row_groups": 2,
        "codecs": ["ZSTD"],
        "page_index": True,
        "bloom_filters": [],
        "encrypted": False,
    }
    assert "parquet-cpp" in facts["created_by"]


def test_key_value_pairs_are_found_again() -> None:
    table = pa.table({"a": [1]}).replace_schema_metadata({"iceberg.schema": "{}", "k": "värde"})
    found = open_bytes(parquet_bytes(table)).metadata
    assert {key: found[key] for key in ("iceberg.schema", "k")} == {"iceberg.schema": "{}", "k": "värde"}


def test_a_distant_source_is_told_the_ranges_before_they_are_read(data: bytes) -> None:
    announced: list[ByteRange] = []

    class Distant(MemorySource):
        def prefetch(self, ranges: Sequence[ByteRange]) -> None:
            announced.extend(ranges)

    file = ParquetReader().open(Distant(data), OpenOptions())
    read_batches(file, columns_named(file, "id", "name"), split=Split(0, file.split_offsets[2]))
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    sizes = [metadata.row_group(number).column(leaf).total_compressed_size for number in (0, 1) for leaf in (0, 10)]
    assert [part.length for part in announced] == sizes
