"""Which rows and values an ORC reader gives back."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType, TimestampType

from formatkit.contract import POS, ByteRange, Encryption, OpenOptions, ReadOptions, Split
from formatkit.errors import ColumnNotFoundError, CorruptFileError, StorageError, UnsupportedError
from formatkit.formats.orc.reader import OrcReader
from formatkit.io import LocalSource, MemorySource
from support.orc_files import columns_named, foreign, open_bytes, pyorc_bytes, read_rows, stripes_of, written

CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]
NESTED = pa.table(
    {
        "a": [1, None, 3],
        "s": [{"x": 1, "y": {"z": "p", "w": 1.5}}, None, {"x": None, "y": None}],
        "l": [[{"p": 1, "q": "a"}, None], [], None],
        "m": pa.array(
            [[("k", {"v": 1, "t": 0})], None, []],
            pa.map_(pa.string(), pa.struct([("v", pa.int64()), ("t", pa.int64())])),
        ),
        "x.y": ["dot", None, "."],
    }
)


def counted(rows: int = 100, stripe: int = 7) -> bytes:
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "t", StringType()))
    batch = pa.RecordBatch.from_pydict({"n": list(range(rows)), "t": [f"text {n}" for n in range(rows)]})
    return written(schema, [batch], properties=stripes_of(stripe))[0]


@pytest.mark.parametrize("codec", CODECS)
def test_files_of_every_codec_are_read(codec: str) -> None:
    assert read_rows(open_bytes(foreign(NESTED, compression=codec))) == NESTED.to_pylist()


def test_an_unknown_codec_is_refused_by_its_number() -> None:
    data = bytearray(foreign(pa.table({"a": [1]}), compression="zlib"))
    start = len(data) - 1 - data[-1]
    data[data.index(b"\x10\x01", start) + 1] = 99
    with pytest.raises(UnsupportedError, match="unknown codec 99"):
        open_bytes(bytes(data))


def test_nested_columns_are_narrowed_to_what_is_asked_for() -> None:
    file = open_bytes(foreign(NESTED))
    by_name: dict[str, Any] = {field.name: field for field in file.schema.fields}
    s, lst, m = by_name["s"], by_name["l"], by_name["m"]
    y = s.field_type.fields[1]
    element = lst.field_type.element_type.fields[1]
    value = m.field_type.value_type.fields[0]
    projection = Schema(
        NestedField(s.field_id, "s", StructType(NestedField(y.field_id, "y", StructType(y.field_type.fields[1])))),
        NestedField(
            lst.field_id, "l", ListType(lst.field_type.element_id, StructType(element), element_required=False)
        ),
        NestedField(
            m.field_id,
            "m",
            MapType(m.field_type.key_id, StringType(), m.field_type.value_id, StructType(value), value_required=False),
        ),
    )
    assert read_rows(file, projection) == [
        {"s": {"y": {"w": 1.5}}, "l": [{"q": "a"}, None], "m": [("k", {"v": 1})]},
        {"s": None, "l": [], "m": None},
        {"s": {"y": None}, "l": None, "m": []},
    ]


def test_a_name_with_a_dot_is_not_a_path() -> None:
    table = pa.table({"x.y": ["dotted"], "x": [{"z": "nested"}]})
    file = open_bytes(foreign(table))
    assert read_rows(file, columns_named(file, "x.y")) == [{"x.y": "dotted"}]


def test_an_unknown_column_is_named() -> None:
    file = open_bytes(foreign(NESTED))
    with pytest.raises(ColumnNotFoundError, match="nope"):
        read_rows(file, Schema(NestedField(1, "nope", LongType())))


def test_no_columns_give_batches_with_the_right_number_of_rows() -> None:
    with open_bytes(counted()).read(ReadOptions(projection=Schema(), batch_rows=5)).batches as batches:
        sizes = [(batch.num_columns, batch.num_rows) for batch in batches]
    assert {columns for columns, _ in sizes} == {0}
    assert sum(rows for _, rows in sizes) == 100
    assert max(rows for _, rows in sizes) <= 5


def test_batches_are_no_larger_than_asked_and_keep_the_order() -> None:
    file = open_bytes(foreign(pa.table({"n": range(1000)})))
    with file.read(ReadOptions(projection=file.schema, batch_rows=300)).batches as batches:
        found = list(batches)
    assert [batch.num_rows for batch in found] == [300, 300, 300, 100]
    assert [n for batch in found for n in batch["n"].to_pylist()] == list(range(1000))


@given(cuts=st.lists(st.integers(0, 10_000), max_size=4), batch_rows=st.integers(1, 20))
def test_splits_that_tile_the_file_give_every_row_once_with_its_position(cuts: list[int], batch_rows: int) -> None:
    data = counted()
    file = open_bytes(data)
    bounds = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    projection = columns_named(file, "n", positions=True)
    rows = [
        row
        for start, end in pairwise(bounds)
        for row in read_rows(file, projection, split=Split(start, end - start), batch_rows=batch_rows)
    ]
    assert rows == [{"n": n, "_pos": n} for n in range(100)]


def test_positions_are_right_where_stripes_and_rows_are_left_out() -> None:
    file = open_bytes(counted())
    found = read_rows(file, Schema(*file.schema.fields, POS), where="n in (8, 50, 97)")
    assert [(row["n"], row["_pos"]) for row in found] == [(8, 8), (50, 50), (97, 97)]
    assert read_rows(file, Schema(POS)) == [{"_pos": n} for n in range(100)]


def test_a_split_begins_with_the_stripes_that_begin_in_it() -> None:
    file = open_bytes(counted())
    starts = file.split_offsets
    assert starts[0] == 3
    assert len(starts) == 15
    assert [row["n"] for row in read_rows(file, split=Split(starts[1], 1))] == list(range(7, 14))
    assert read_rows(file, split=Split(starts[1] + 1, starts[2] - starts[1] - 1)) == []


FAR = [
    datetime(1, 1, 1),
    datetime(1677, 9, 21),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1969, 12, 31, 23, 59, 58, 500_000),
    datetime(1969, 12, 31, 23, 59, 59),
    datetime(1970, 1, 1),
    None,
    datetime(2015, 1, 1, 0, 0, 0, 1),
    datetime(2262, 4, 12),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["0.11", "0.12"])
def test_timestamps_of_all_years_are_read_to_the_microsecond(codec: str, version: str) -> None:
    table = pa.table(
        {
            "t": pa.array(FAR, pa.timestamp("us")),
            "z": pa.array(FAR, pa.timestamp("us", "UTC")),
            "l": pa.array([[t, None] for t in FAR], pa.list_(pa.timestamp("us"))),
            "m": pa.array([[("k", t)] for t in FAR], pa.map_(pa.string(), pa.timestamp("us"))),
            "s": pa.array([{"t": t} if t else None for t in FAR], pa.struct([("t", pa.timestamp("us"))])),
            "n": range(len(FAR)),
        }
    )
    file = open_bytes(foreign(table, compression=codec, file_version=version))
    assert read_rows(file) == table.to_pylist()
    assert read_rows(file, columns_named(file, "t", "n"), where="n > 7") == [
        {"t": t, "n": 8 + i} for i, t in enumerate(FAR[8:])
    ]


@given(moments=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**9), 10**9), min_size=1))
def test_any_microsecond_of_64_bits_comes_back(moments: list[int | None]) -> None:
    schema = Schema(NestedField(1, "t", TimestampType()))
    data, _ = written(schema, [pa.RecordBatch.from_arrays([pa.array(moments, pa.timestamp("us"))], ["t"])])
    with open_bytes(data).read(ReadOptions(projection=schema)).batches as batches:
        assert [value for batch in batches for value in batch["t"].cast(pa.int64()).to_pylist()] == moments


def test_timestamps_of_pyorc_are_read() -> None:
    moments = [
        datetime(1969, 12, 31, 23, 59, 58, 500_000),
        datetime(2024, 2, 29, 12, 0, 0, 123_456),
        datetime(3000, 1, 1),
    ]
    rows = [(t.replace(tzinfo=UTC), t.replace(tzinfo=UTC)) for t in moments]
    file = open_bytes(pyorc_bytes("struct<t:timestamp,z:timestamp with local time zone>", rows))
    assert read_rows(file) == [{"t": t, "z": t.replace(tzinfo=UTC)} for t in moments]


def test_nanoseconds_are_cut_towards_the_past_where_only_microseconds_are_wanted() -> None:
    nanos = pa.array([1_500, -1, -1_500, None], pa.timestamp("ns"))
    file = open_bytes(foreign(pa.table({"t": nanos})))
    with file.read(ReadOptions(projection=file.schema)).batches as batches:
        assert next(batches)["t"].cast(pa.int64()).to_pylist() == [1, -1, -2, None]


def test_rows_of_pyorc_are_read() -> None:
    rows = [(n, f"t{n % 3}", [n, None], {"k": n}, (n / 2,)) for n in range(5000)]
    data = pyorc_bytes("struct<n:bigint,t:string,l:array<int>,m:map<string,int>,s:struct<d:double>>", rows)
    expected = [{"n": n, "t": t, "l": lst, "m": list(m.items()), "s": {"d": s[0]}} for n, t, lst, m, s in rows]
    assert read_rows(open_bytes(data)) == expected


def test_null_in_a_required_column_is_corrupt() -> None:
    field: Any = pa.field("a", pa.int64(), metadata={"iceberg.id": "1", "iceberg.required": "true"})
    file = open_bytes(foreign(pa.table([pa.array([1, None])], schema=pa.schema([field]))))
    with pytest.raises(CorruptFileError, match="'a' is required"):
        read_rows(file)


@pytest.mark.parametrize(
    ("values", "kind", "attributes"),
    [
        ([b"short"], pa.binary(), {"iceberg.binary-type": "UUID"}),
        ([b"12", b"123"], pa.binary(), {"iceberg.binary-type": "FIXED", "iceberg.length": "2"}),
        ([-1], pa.int64(), {"iceberg.long-type": "TIME"}),
        ([86_400_000_000], pa.int64(), {"iceberg.long-type": "TIME"}),
    ],
)
def test_values_that_the_type_cannot_hold_are_corrupt(values: list[Any], kind: Any, attributes: dict[str, str]) -> None:
    field: Any = pa.field("a", kind, metadata=dict(attributes))
    file = open_bytes(foreign(pa.table([pa.array(values, kind)], schema=pa.schema([field]))))
    with pytest.raises(CorruptFileError, match="column 'a'"):
        read_rows(file)


def test_text_that_is_no_utf8_is_corrupt() -> None:
    data = foreign(pa.table({"t": ["münchen"]})).replace("ü".encode(), b"\xff\xfe")
    with pytest.raises(CorruptFileError, match="column 't'"):
        read_rows(open_bytes(data))


class FlakySource(MemorySource):
    """Fails once more has been read than a tail needs."""

    reads = 0

    def read(self, offset: int, length: int) -> memoryview:
        self.reads += 1
        if self.reads > 2:
            raise StorageError("the network is down", location=self.location)
        return super().read(offset, length)


def test_a_failure_of_the_storage_while_decoding_is_not_called_corruption() -> None:
    file = OrcReader().open(FlakySource(counted()), OpenOptions())
    with pytest.raises(StorageError, match="network is down"):
        read_rows(file)


class CountingSource(MemorySource):
    """Remembers what was read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.ranges: list[ByteRange] = []

    def read(self, offset: int, length: int) -> memoryview:
        self.ranges.append(ByteRange(offset, length))
        return super().read(offset, length)

    @property
    def bytes_read(self) -> int:
        return sum(part.length for part in self.ranges)


def wide_file() -> bytes:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"c{i}": rng.random(60_000) for i in range(10)}
    table = pa.table({"n": range(60_000), **columns})
    return foreign(table, stripe_size=2 << 20, batch_size=10_000, compression="zstd")


def test_a_filter_that_matches_no_stripe_reads_less_than_two_percent() -> None:
    data = wide_file()
    source = CountingSource(data)
    file = OrcReader().open(source, OpenOptions())
    assert read_rows(file, where="n > 1000000") == []
    assert source.bytes_read < 0.02 * len(data)


def test_only_the_columns_that_are_asked_for_are_fetched() -> None:
    data = wide_file()
    source = CountingSource(data)
    file = OrcReader().open(source, OpenOptions())
    read_rows(file, columns_named(file, "c3"))
    assert source.bytes_read < 0.15 * len(data)


def test_other_columns_are_not_fetched_where_the_tested_one_matches_nothing() -> None:
    data = wide_file()
    source = CountingSource(data)
    file = OrcReader().open(source, OpenOptions())
    assert read_rows(file, where="c0 = 0.5") == []
    assert source.bytes_read < 0.2 * len(data)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_local_file_is_closed_when_the_read_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(counted())
    before = open_files()
    source = LocalSource(path)
    file = OrcReader().open(source, OpenOptions())
    result = file.read(ReadOptions(projection=file.schema, batch_rows=3))
    first = next(result.batches)
    result.batches.close()
    source.close()
    assert open_files() == before
    assert first["n"].to_pylist() == [0, 1, 2]


def test_a_local_file_is_read_like_one_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(foreign(NESTED))
    source = LocalSource(path)
    assert read_rows(OrcReader().open(source, OpenOptions())) == NESTED.to_pylist()
    source.close()


def test_encryption_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="decrypted"):
        open_bytes(counted(), encryption=Encryption(key=b"0" * 16))
