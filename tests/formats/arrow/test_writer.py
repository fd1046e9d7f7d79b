from __future__ import annotations

import io
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType, UnknownType

import formatkit
from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import Encryption, WriteOptions
from formatkit.errors import (
    ConfigurationError,
    FileAlreadyExistsError,
    FormatkitError,
    InvalidDataError,
    UnsupportedError,
)
from formatkit.formats.arrow.writer import ArrowWriter
from formatkit.io import MemorySink
from formatkit.tck.rows import comparable
from support.arrow_files import LAYOUTS, opened, rows_of, written
from support.typed_values import ALL_TYPES, TypedValues

NUMBERS = Schema(NestedField(1, "n", LongType()))


def numbers(*values: int | None) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("values", ALL_TYPES, ids=str)
def test_every_value_comes_back(values: TypedValues, layout: str) -> None:
    schema = Schema(NestedField(1, "a", values.iceberg))
    batch = pa.record_batch([values.column(values.with_specials)], names=["a"])
    data, _ = written(schema, [batch], properties={"write.arrow.layout": layout})
    assert comparable(rows_of(opened(data))) == comparable(ArrowBatch().rows(schema, batch))


def test_layout_and_codec_are_those_of_the_properties() -> None:
    repeated = pa.record_batch({"n": [7] * 50_000})
    sizes = {}
    for codec in ("none", "lz4", "zstd"):
        properties = {"write.arrow.layout": "stream", "write.arrow.compression-codec": codec}
        data, result = written(NUMBERS, [repeated], properties=properties)
        assert ipc.open_stream(data).read_all().num_rows == 50_000
        assert result.split_offsets is None
        sizes[codec] = result.size_bytes
        assert len(data) == result.size_bytes
    assert len(set(sizes.values())) == 3
    assert max(sizes, key=lambda codec: sizes[codec]) == "none"


def test_files_are_compressed_with_lz4_if_nothing_is_said() -> None:
    data, _ = written(NUMBERS, [pa.record_batch({"n": [7] * 50_000})])
    assert data.startswith(b"ARROW1")
    assert len(data) < 50_000


@pytest.mark.parametrize(
    "properties",
    [
        {"write.arrow.layout": "heap"},
        {"write.arrow.compression-codec": "snappy"},
        {"write.arrow.record-batch-rows": "0"},
        {"write.arrow.record-batch-rows": "many"},
        {"write.arrow.compression-codec": "zstd", "write.arrow.compression-level": "high"},
    ],
    ids=str,
)
def test_a_property_that_means_nothing_is_refused(properties: dict[str, str]) -> None:
    sink = MemorySink()
    with pytest.raises(ConfigurationError, match=r"write\.arrow\."):
        ArrowWriter().open(sink, WriteOptions(schema=NUMBERS, properties=properties))


def test_unknown_properties_are_ignored() -> None:
    assert written(NUMBERS, [numbers(1)], properties={"write.arrow.colour": "red"})[1].row_count == 1


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_split_offsets_are_where_the_record_batches_begin(codec: str) -> None:
    properties = {"write.arrow.record-batch-rows": "2", "write.arrow.compression-codec": codec}
    data, result = written(NUMBERS, [numbers(1, 2, 3), numbers(4)], properties=properties)
    assert result.split_offsets == opened(data).split_offsets
    assert len(result.split_offsets or ()) == 3


def test_key_value_pairs_are_kept() -> None:
    data, _ = written(NUMBERS, [numbers(1)], metadata={"owner": "ä"})
    assert opened(data).metadata == {"owner": "ä"}


def test_unknown_columns_are_left_out_at_every_level() -> None:
    inner = StructType(NestedField(4, "x", LongType()), NestedField(5, "u", UnknownType()))
    schema = Schema(NestedField(1, "u", UnknownType()), NestedField(2, "l", ListType(3, inner, element_required=False)))
    values = pa.array([[{"x": 1, "u": None}]], pa.list_(pa.struct([("x", pa.int64()), ("u", pa.null())])))
    data, _ = written(schema, [pa.record_batch([pa.nulls(1), values], names=["u", "l"])])
    file = opened(data)
    assert file.schema.field_ids == {2, 3, 4}
    assert rows_of(file) == [([(1,)],)]


def test_null_in_a_required_column_is_refused_with_its_row() -> None:
    schema = Schema(NestedField(1, "n", LongType(), required=True))
    with pytest.raises(InvalidDataError, match="row 3"):
        written(schema, [numbers(1, 2), numbers(3, None)])


def test_no_rows_leave_no_file() -> None:
    sink = MemorySink()
    writer = ArrowWriter().open(sink, WriteOptions(schema=NUMBERS))
    writer.write(numbers())
    assert writer.close() is None
    assert writer.close() is None
    assert sink.data is None


def test_an_aborted_writer_cannot_go_on() -> None:
    sink = MemorySink()
    writer = ArrowWriter().open(sink, WriteOptions(schema=NUMBERS))
    writer.write(numbers(1))
    writer.abort()
    writer.abort()
    with pytest.raises(FormatkitError, match="aborted"):
        writer.close()
    with pytest.raises(FormatkitError, match="aborted"):
        writer.write(numbers(1))
    del writer
    assert sink.data is None


def test_a_file_that_is_there_stays() -> None:
    sink = MemorySink()
    sink.data = b"mine"
    with pytest.raises(FileAlreadyExistsError):
        ArrowWriter().open(sink, WriteOptions(schema=NUMBERS))
    with ArrowWriter().open(sink, WriteOptions(schema=NUMBERS, overwrite=True)) as writer:
        writer.write(numbers(1))
    assert sink.data is not None
    assert sink.data.startswith(b"ARROW1")


def test_a_key_is_refused() -> None:
    options = WriteOptions(schema=NUMBERS, encryption=Encryption(key=b"k" * 16))
    with pytest.raises(UnsupportedError, match="encrypted"):
        ArrowWriter().open(MemorySink(), options)


def test_bytes_written_grow_with_the_file() -> None:
    sink = MemorySink()
    with ArrowWriter().open(sink, WriteOptions(schema=NUMBERS)) as writer:
        writer.write(pa.record_batch({"n": list(range(10_000))}))
        assert 10_000 < writer.bytes_written() < 100_000


def test_other_readers_see_the_same_rows() -> None:
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "s", StringType()))
    batch = pa.record_batch({"n": [1, None], "s": ["a", "ä"]})
    data, _ = written(schema, [batch])
    assert pl.read_ipc(io.BytesIO(data)).rows() == [(1, "a"), (None, "ä")]
    assert feather.read_table(io.BytesIO(data)).to_pylist() == batch.to_pylist()


def test_what_polars_writes_is_read() -> None:
    frame = pl.DataFrame(
        {"n": [1, None], "c": pl.Series(["x", "y"], dtype=pl.Categorical), "l": [["a"], None], "s": [{"a": 1}, None]}
    )
    for write in (frame.write_ipc, frame.write_ipc_stream):
        output = io.BytesIO()
        write(output)
        assert rows_of(opened(output.getvalue())) == [(1, "x", ["a"], (1,)), (None, "y", None, None)]


def test_files_are_found_by_their_ending_and_their_first_bytes(tmp_path: Any) -> None:
    for name in ("a.arrow", "b.feather", "c.ipc", "d.arrows"):
        formatkit.write_file(tmp_path / name, numbers(1, 2))
        assert formatkit.read_file(tmp_path / name, where="n > 1").to_arrow().to_pylist() == [{"n": 2}]
    (tmp_path / "a.arrow").rename(tmp_path / "nameless")
    assert formatkit.read_file(tmp_path / "nameless").count() == 2
