"""Iceberg's `write.parquet.*` properties, seen in the file."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from formatkit.errors import ConfigurationError
from formatkit.formats.parquet.write_properties import BloomFilter
from support.parquet_writing import data_pages, metadata_of, written

SCHEMA = Schema(
    NestedField(1, "n", LongType(), required=False),
    NestedField(2, "word", StringType(), required=False),
    NestedField(3, "flag", BooleanType(), required=False),
    NestedField(4, "in", StructType(NestedField(5, "a b", IntegerType(), required=False)), required=False),
    NestedField(6, "list", ListType(7, StringType(), element_required=False), required=False),
)
ROWS = 5_000
PATHS = {"n": 0, "word": 1, "flag": 2, "in.a b": 3, "list.element": 4}


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    random = np.random.default_rng(0)
    numbers = random.integers(0, 2**62, ROWS)
    return pa.record_batch(
        {
            "n": pa.array(numbers),
            "word": pa.array([f"word {i % 50}" for i in range(ROWS)]),
            "flag": pa.array(numbers % 2 == 0),
            "in": pa.StructArray.from_arrays([pa.array(numbers % 1000, pa.int32())], ["a b"]),
            "list": pa.array([[str(number)] for number in numbers]),
        }
    )


def write(batch: pa.RecordBatch, **properties: Any) -> bytes:
    """Write with properties whose dashes are underscores here."""
    named = {f"write.parquet.{name.replace('_', '-')}": str(value) for name, value in properties.items()}
    return written(SCHEMA, [batch], properties=named)[0]


def chunks(data: bytes, group: int = 0) -> dict[str, pq.ColumnChunkMetaData]:
    row_group = metadata_of(data).row_group(group)
    return {name: row_group.column(i) for name, i in PATHS.items()}


@pytest.mark.parametrize(
    ("word", "codec"),
    [
        ("zstd", "ZSTD"),
        ("ZSTD", "ZSTD"),
        ("gzip", "GZIP"),
        ("snappy", "SNAPPY"),
        ("lz4", "LZ4"),
        ("lz4_raw", "LZ4"),
        ("brotli", "BROTLI"),
        ("uncompressed", "UNCOMPRESSED"),
    ],
)
def test_the_codec_is_used_for_every_column(batch: pa.RecordBatch, word: str, codec: str) -> None:
    data = write(batch, compression_codec=word)
    assert {chunk.compression for chunk in chunks(data).values()} == {codec}
    assert pq.read_table(io.BytesIO(data)).num_rows == ROWS


def test_the_default_codec_is_zstd(batch: pa.RecordBatch) -> None:
    assert chunks(write(batch))["n"].compression == "ZSTD"


@pytest.mark.parametrize("codec", ["zstd", "gzip", "brotli"])
def test_the_level_reaches_the_codec(codec: str) -> None:
    schema = Schema(NestedField(1, "text", StringType(), required=False))
    text = pa.record_batch({"text": [f"row {i} of {i * i} and {i % 7} more words" for i in range(ROWS)]})
    sizes = []
    for level in ("1", "9"):
        properties = {"write.parquet.compression-codec": codec, "write.parquet.compression-level": level}
        sizes.append(written(schema, [text], properties=properties)[1].size_bytes)
    assert sizes[0] != sizes[1]


@pytest.mark.parametrize("codec", ["snappy", "lz4", "uncompressed"])
def test_a_level_is_ignored_where_the_codec_has_none(batch: pa.RecordBatch, codec: str) -> None:
    assert write(batch, compression_codec=codec, compression_level=3) == write(batch, compression_codec=codec)


@pytest.mark.parametrize("target", [20_000, 50_000])
def test_row_groups_have_about_the_asked_size(target: int) -> None:
    random = np.random.default_rng(1)
    schema = Schema(NestedField(1, "n", LongType(), required=False))
    batches = [pa.record_batch({"n": random.integers(0, 2**62, 10_000)}) for _ in range(5)]
    data, result = written(schema, batches, properties={"write.parquet.row-group-size-bytes": str(target)})
    footer = metadata_of(data)
    sizes = [footer.row_group(i).column(0).total_compressed_size for i in range(footer.num_row_groups)]
    assert all(0.75 * target < size < 1.25 * target for size in sizes[:-1])
    assert result.split_offsets is not None
    assert len(result.split_offsets) == len(sizes) > 5


def test_row_groups_of_well_compressible_data_grow_after_the_first(batch: pa.RecordBatch) -> None:
    schema = Schema(NestedField(1, "n", LongType(), required=False))
    data, _ = written(
        schema,
        [pa.record_batch({"n": np.zeros(10_000, np.int64)})] * 10,
        properties={"write.parquet.row-group-size-bytes": "40000"},
    )
    # Never more than eight times the size in memory, however small the result.
    assert [metadata_of(data).row_group(i).num_rows for i in range(3)] == [40_000, 40_000, 20_000]


def test_a_tiny_size_gives_row_groups_of_as_many_rows_as_are_checked_at_once(batch: pa.RecordBatch) -> None:
    assert metadata_of(write(batch, row_group_size_bytes=1)).num_row_groups == ROWS // 100
    finer = write(batch, row_group_size_bytes=1, row_group_check_min_record_count=10)
    assert metadata_of(finer).num_row_groups == ROWS // 10


@pytest.mark.parametrize("rows", [1, 999, 5_000, 10_000])
def test_a_row_limit_ends_row_groups(batch: pa.RecordBatch, rows: int) -> None:
    if rows == 1:
        batch = batch.slice(0, 20)
    footer = metadata_of(write(batch, row_group_limit=rows))
    found = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    assert found == [rows] * (batch.num_rows // rows) + [batch.num_rows % rows] * (batch.num_rows % rows > 0)


def test_pages_end_at_the_row_limit(batch: pa.RecordBatch) -> None:
    data = write(batch, page_row_limit=1000)
    assert [page[5][1] for page in data_pages(data, chunks(data)["n"])] == [1000] * 5
    whole = write(batch)
    assert len(list(data_pages(whole, chunks(whole)["n"]))) == 1


def test_pages_end_at_the_size(batch: pa.RecordBatch) -> None:
    data = write(batch, page_size_bytes=8_000, dict_enabled="false")
    sizes = [page[2] for page in data_pages(data, chunks(data)["n"])]
    assert len(sizes) > 3
    assert max(sizes) < 20_000


@pytest.mark.parametrize(("version", "header"), [("v1", 5), ("v2", 8), ("V2", 8)])
def test_the_page_version_is_followed(batch: pa.RecordBatch, version: str, header: int) -> None:
    data = write(batch, page_version=version)
    assert all(header in page for page in data_pages(data, chunks(data)["word"]))
    assert pq.read_table(io.BytesIO(data)).column("word").to_pylist() == batch.column("word").to_pylist()


def dictionaries(data: bytes) -> set[str]:
    return {name for name, chunk in chunks(data).items() if chunk.has_dictionary_page}


def test_dictionaries_are_used_unless_switched_off(batch: pa.RecordBatch) -> None:
    everything = {"n", "word", "in.a b", "list.element"}
    assert dictionaries(write(batch)) == everything
    assert dictionaries(write(batch, dict_enabled="false")) == set()
    assert dictionaries(write(batch, **{"dict_enabled.column.list.element": "false"})) == everything - {"list.element"}
    only = {"dict_enabled": "false", "dict_enabled.column.in.a b": "true"}
    assert dictionaries(write(batch, **only)) == {"in.a b"}


def test_javas_own_switch_for_dictionaries_is_known(batch: pa.RecordBatch) -> None:
    data, _ = written(SCHEMA, [batch], properties={"parquet.enable.dictionary": "false"})
    assert dictionaries(data) == set()


def test_a_dictionary_that_grows_too_large_is_given_up(batch: pa.RecordBatch) -> None:
    limited, roomy = chunks(write(batch, dict_size_bytes=1000))["n"], chunks(write(batch))["n"]
    assert "PLAIN" in limited.encodings
    assert limited.total_uncompressed_size < roomy.total_uncompressed_size


def test_statistics_are_left_out_for_single_columns(batch: pa.RecordBatch) -> None:
    data = write(batch, **{"stats_enabled.column.word": "false", "stats_enabled.column.in.a b": "false"})
    without = {name for name, chunk in chunks(data).items() if not chunk.is_stats_set}
    assert without == {"word", "in.a b"}
    assert all(chunk.is_stats_set for chunk in chunks(write(batch)).values())


def bloom_filters(data: bytes) -> dict[str, int]:
    found: dict[str, Any] = {name: getattr(chunk, "bloom_filter_length", None) for name, chunk in chunks(data).items()}
    return {name: length for name, length in found.items() if length is not None}


def test_bloom_filters_are_written_for_the_columns_that_ask(batch: pa.RecordBatch) -> None:
    wishes = {f"bloom_filter_enabled.column.{name}": "true" for name in ("n", "in.a b", "list.element", "flag", "gone")}
    assert set(bloom_filters(write(batch, **wishes))) == {"n", "in.a b", "list.element"}
    assert bloom_filters(write(batch)) == {}
    assert bloom_filters(write(batch, **{"bloom_filter_enabled.column.n": "false"})) == {}


def test_bloom_filters_are_as_large_as_they_must_be(batch: pa.RecordBatch) -> None:
    enabled = {"bloom_filter_enabled.column.n": "true"}
    default = bloom_filters(write(batch, **enabled))["n"]
    assert ROWS < default < 4 * ROWS
    assert bloom_filters(write(batch, **enabled, **{"bloom_filter_fpp.column.n": "0.5"}))["n"] < default
    assert bloom_filters(write(batch, **enabled, **{"bloom_filter_ndv.column.n": "100"}))["n"] < default / 16
    assert bloom_filters(write(batch, **enabled, bloom_filter_max_bytes=1024))["n"] < 1024 + 64


@pytest.mark.parametrize("false_positives", [0.001, 0.01, 0.5])
@pytest.mark.parametrize("max_bytes", [32, 1000, 1 << 20])
def test_a_bloom_filter_never_exceeds_its_limit(false_positives: float, max_bytes: int) -> None:
    options = BloomFilter(false_positives=false_positives, distinct=None, max_bytes=max_bytes).options(10**9)
    bits = -8 * options["ndv"] / np.log(1 - false_positives ** (1 / 8))
    assert options["ndv"] >= 1
    assert bits <= 8 * max_bytes or options["ndv"] == 1


BAD = [
    ("compression-codec", "lzo", "one of: zstd, gzip, snappy"),
    ("compression-level", "fast", "from 1 to 22 for zstd"),
    ("compression-level", "23", "from 1 to 22 for zstd"),
    ("row-group-size-bytes", "0", "a whole number from 1"),
    ("row-group-size-bytes", "128MB", "a whole number from 1"),
    ("row-group-limit", "-1", "a whole number from 1"),
    ("page-size-bytes", "1.5", "a whole number from 1"),
    ("page-row-limit", "", "a whole number from 1"),
    ("dict-size-bytes", "many", "a whole number from 1"),
    ("page-version", "v3", "one of: v1, v2"),
    ("dict-enabled", "yes", "one of: true, false"),
    ("stats-enabled.column.n", "maybe", "one of: true, false"),
    ("bloom-filter-enabled.column.n", "1", "one of: true, false"),
    ("bloom-filter-max-bytes", "8", "a whole number from 32"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), BAD)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, value: str, allowed: str) -> None:
    key = f"write.parquet.{name}"
    with pytest.raises(ConfigurationError) as caught:
        written(SCHEMA, [], properties={key: value})
    assert str(caught.value).startswith(f"property {key!r} is {value!r}; it must be ")
    assert allowed in str(caught.value)


@pytest.mark.parametrize("value", ["0", "1", "-0.1", "often"])
def test_a_probability_lies_between_zero_and_one(value: str) -> None:
    wishes = {"bloom-filter-enabled.column.n": "true", "bloom-filter-fpp.column.n": value}
    with pytest.raises(ConfigurationError, match="a number above 0 and below 1"):
        written(SCHEMA, [], properties={f"write.parquet.{name}": wish for name, wish in wishes.items()})


def test_unknown_properties_are_ignored(batch: pa.RecordBatch) -> None:
    unknown = {"write.parquet.colour": "red", "write.orc.compression-codec": "no", "stats-enabled.column.gone": "?"}
    assert written(SCHEMA, [batch], properties=unknown)[0] == write(batch)
