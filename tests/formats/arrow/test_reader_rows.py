from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType

from formatkit.contract import POS, ByteRange, Encryption, OpenOptions, ReadOptions, Split
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.formats.arrow.reader import ArrowReader
from formatkit.io import MemorySource
from support.arrow_files import LAYOUTS, foreign, opened, rows_of, written

NUMBERS = Schema(NestedField(1, "n", LongType()))
both_layouts = pytest.mark.parametrize("layout", LAYOUTS)


def numbers(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64())})


class CountingSource(MemorySource):
    """Counts the bytes that are read by position."""

    read_bytes = 0

    def read(self, offset: int, length: int) -> memoryview:
        self.read_bytes += length
        return super().read(offset, length)

    def open(self) -> Any:
        return _CountingFile(self)


class _CountingFile:
    closed = False

    def __init__(self, source: CountingSource) -> None:
        self._source, self._at = source, 0

    def read(self, length: int = -1) -> bytes:
        length = min(length, self._source.size() - self._at)
        self._at += length
        return bytes(self._source.read(self._at - length, length))

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._source.size())[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


@both_layouts
@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array(["x", None, "y", "x"]).dictionary_encode(), ["x", None, "y", "x"]),
        (pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int16()), pa.array([None, 7])), [None, 7, 7, 7]),
        (pa.array(["a" * 30, None, ""], pa.string_view()), ["a" * 30, None, ""]),
        (pa.array([b"a", None], pa.large_binary()), [b"a", None]),
        (pa.array([[1], None, [2, None]], pa.list_view(pa.int16())), [[1], None, [2, None]]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), [[1, 2], None]),
        (pa.array([2**32 - 1, None], pa.uint32()), [2**32 - 1, None]),
        (pa.array([0, -1], pa.timestamp("s")), [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59)]),
        (pa.array([86_400_000, None], pa.date64()), [date(1970, 1, 2), None]),
        (pa.array([1_000, None], pa.time64("ns")), [time(0, 0, 0, 1), None]),
        (pa.array([Decimal("1.50"), None], pa.decimal256(38, 2)), [Decimal("1.50"), None]),
        (pa.array([None, None], pa.null()), [None, None]),
        (pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array([{"a": 1}])), [(1,), None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_foreign_forms_hold_the_same_values(column: Any, values: list[Any], layout: str) -> None:
    file = opened(foreign([pa.record_batch({"a": column})], layout))
    assert [row[0] for row in rows_of(file, batch_rows=3)] == values


def test_a_time_that_is_no_whole_microsecond_is_refused() -> None:
    file = opened(foreign([pa.record_batch({"a": pa.array([1], pa.time64("ns"))})]))
    with pytest.raises(InvalidDataError, match="'a'"):
        rows_of(file)


def test_null_in_a_column_that_the_file_calls_required_is_refused() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, None])], schema=schema)
    file = opened(foreign([batch]))
    with pytest.raises(InvalidDataError, match="'a' is required, but null in row 2"):
        rows_of(file, batch_rows=2)


@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_may_grow_and_be_replaced(deltas: bool) -> None:
    parts = [["a", "b"], ["a", "b", "c"]] + ([] if deltas else [["z"]])
    kind = pa.dictionary(pa.int8(), pa.string())
    columns = [pa.DictionaryArray.from_arrays(pa.array(range(len(part)), pa.int8()), part) for part in parts]
    batches = [pa.record_batch([column.cast(kind)], names=["a"]) for column in columns]
    data = foreign(batches, "stream" if not deltas else "file", emit_dictionary_deltas=deltas)
    assert [row[0] for row in rows_of(opened(data))] == [value for part in parts for value in part]


@both_layouts
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("legacy", [False, True])
def test_old_and_compressed_files_are_read(layout: str, codec: str | None, legacy: bool) -> None:
    batch = pa.record_batch({"a": list(range(1000)), "b": ["text"] * 1000})
    file = opened(foreign([batch, batch], layout, compression=codec, use_legacy_format=legacy))
    assert rows_of(file) == [(number, "text") for number in range(1000)] * 2
    assert file.row_count == (2000 if layout == "file" else None)


@both_layouts
def test_batches_are_as_small_as_asked_and_positions_count_through(layout: str) -> None:
    file = opened(foreign([numbers(10), numbers(7)], layout))
    projection = Schema(*file.schema.fields, POS)
    with file.read(ReadOptions(projection=projection, batch_rows=4)).batches as stream:
        batches = list(stream)
    assert [batch.num_rows for batch in batches] == [4, 4, 2, 4, 3]
    assert [ordinal for batch in batches for ordinal in batch.column(1).to_pylist()] == list(range(17))


@both_layouts
def test_a_read_without_columns_counts(layout: str) -> None:
    file = opened(foreign([numbers(10), numbers(7)], layout))
    for fields in ((), (POS,)):
        with file.read(ReadOptions(projection=Schema(*fields))).batches as batches:
            assert [(batch.num_rows, batch.num_columns) for batch in batches] == [(10, len(fields)), (7, len(fields))]


@both_layouts
def test_every_row_belongs_to_one_split(layout: str) -> None:
    data = foreign([numbers(10), numbers(7), numbers(3)], layout)
    file = opened(data)
    projection = Schema(*file.schema.fields, POS)
    whole = rows_of(file, projection=projection)
    for step in (1, 40, 333, len(data)):
        splits = [Split(start, step) for start in range(0, len(data), step)]
        assert [row for split in splits for row in rows_of(file, projection=projection, split=split)] == whole


def test_each_record_batch_can_be_read_alone() -> None:
    data = foreign([numbers(10), numbers(7), numbers(3)])
    file = opened(data)
    bounds = [*file.split_offsets, len(data)]
    parts = [rows_of(file, split=Split(start, end - start)) for start, end in pairwise(bounds)]
    assert list(map(len, parts)) == [10, 7, 3]


def test_only_the_bytes_of_asked_columns_are_read() -> None:
    wide = pa.record_batch({"a": list(range(10_000)), "b": ["x" * 100] * 10_000})
    source = CountingSource(foreign([wide]))
    file = ArrowReader().open(source, OpenOptions())
    source.read_bytes = 0
    assert len(rows_of(file, projection=Schema(file.schema.fields[0]))) == 10_000
    assert 80_000 <= source.read_bytes < 120_000
    source.read_bytes = 0
    assert len(rows_of(file, projection=Schema())) == 10_000
    assert source.read_bytes < 1_000


def test_parts_of_nested_columns_are_picked_by_name_whatever_ids_are_asked_for() -> None:
    inner = pa.array([[{"a": 1, "b": "x"}], None, []])
    file = opened(foreign([pa.record_batch({"l": inner})]))
    part = NestedField(70, "b", StringType())
    asked = Schema(NestedField(50, "l", ListType(60, StructType(part), element_required=False)))
    assert rows_of(file, projection=asked) == [([("x",)],), (None,), ([],)]


def test_columns_are_handed_out_as_dictionaries_when_asked() -> None:
    text = Schema(NestedField(1, "s", StringType()))
    data, _ = written(text, [pa.record_batch({"s": ["a", "b", "a"]})])
    file = opened(data)
    with file.read(ReadOptions(projection=file.schema, dictionary_columns=frozenset({1}))).batches as batches:
        assert [batch.column(0).type for batch in batches] == [pa.dictionary(pa.int32(), pa.string())]


def test_batches_outlive_everything_that_was_closed() -> None:
    data, _ = written(NUMBERS, [numbers(5)], properties={"write.arrow.compression-codec": "none"})
    source = MemorySource(data)
    file = ArrowReader().open(source, OpenOptions())
    with file.read(ReadOptions(projection=file.schema)).batches as stream:
        batch = next(stream)
    file.close()
    source.close()
    del source, data, file
    assert batch.column(0).to_pylist() == [0, 1, 2, 3, 4]


def test_a_key_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="encrypted"):
        ArrowReader().open(MemorySource(foreign([numbers(1)])), OpenOptions(encryption=Encryption(key=b"k" * 16)))


def test_feather_version_1_is_named() -> None:
    with pytest.raises(UnsupportedError, match="Feather version 1"):
        opened(b"FEA1" + bytes(100))


def test_what_will_be_read_is_announced() -> None:
    class Announced(MemorySource):
        ranges: list[ByteRange] = []  # noqa: RUF012

        def prefetch(self, ranges: Any) -> None:
            self.ranges.extend(ranges)

    source = Announced(foreign([numbers(1), numbers(2)]))
    assert ArrowReader().open(source, OpenOptions()).row_count == 3
    assert len(source.ranges) == 2
