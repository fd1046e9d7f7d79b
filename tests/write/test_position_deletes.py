"""Position-delete files of every format, read by other libraries."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.typedef import Record

from formatkit.errors import (
    ConfigurationError,
    FileAlreadyExistsError,
    FormatNotRegisteredError,
    InvalidDataError,
    StorageError,
)
from formatkit.write.deletes import delete_format, write_position_deletes
from support.data_file_fields import field_of
from support.failing_sinks import FailingSink
from support.foreign_readers import FORMATS, METADATA, rows_of

PATH, POSITION = 2147483546, 2147483545
ONE, OTHER = "s3://bucket/data/a long name of a file-00000.parquet", "file:/tmp/ä.orc"


def path_of(file: DataFile) -> Path:
    return Path(file.file_path)


@pytest.mark.parametrize("name", FORMATS)
def test_other_libraries_read_what_is_deleted(tmp_path: Path, name: str) -> None:
    file = write_position_deletes(tmp_path / f"d.{name}", {ONE: [7, 3, 7], OTHER: np.array([2**40]), "none": []})
    assert rows_of(path_of(file)) == [
        {"file_path": OTHER, "pos": 2**40},
        {"file_path": ONE, "pos": 3},
        {"file_path": ONE, "pos": 7},
    ]
    assert file.content is DataFileContent.POSITION_DELETES
    assert (file.record_count, file.file_size_in_bytes) == (3, path_of(file).stat().st_size)
    file_format: str = file.file_format
    assert file_format == name.upper()


@pytest.mark.parametrize("name", METADATA)
def test_files_say_that_they_hold_position_deletes(tmp_path: Path, name: str) -> None:
    file = write_position_deletes(tmp_path / f"d.{name}", {ONE: [1]})
    assert METADATA[name](path_of(file))["delete-type"] == "position"


@pytest.mark.parametrize("name", FORMATS)
def test_deletes_of_one_file_have_its_bounds_and_no_counts(tmp_path: Path, name: str) -> None:
    properties = {"write.metadata.metrics.default": "none"}
    file = write_position_deletes(tmp_path / f"d.{name}", {ONE: [0, 5, 3]}, properties=properties)
    assert file.lower_bounds == {PATH: ONE.encode(), POSITION: bytes(8)}
    assert file.upper_bounds == {PATH: ONE.encode(), POSITION: b"\5" + bytes(7)}
    assert (file.value_counts, file.null_value_counts, file.nan_value_counts) == ({}, {}, {})
    assert field_of(file, "referenced_data_file") == ONE


@pytest.mark.parametrize("name", FORMATS)
def test_deletes_of_several_files_have_neither(tmp_path: Path, name: str) -> None:
    file = write_position_deletes(tmp_path / f"d.{name}", {ONE: [0], OTHER: [0]})
    assert (file.lower_bounds, file.upper_bounds) == ({}, {})
    assert (file.value_counts, file.null_value_counts, file.nan_value_counts) == ({}, {}, {})
    assert field_of(file, "referenced_data_file") is None


def test_ids_are_those_that_iceberg_reserves(tmp_path: Path) -> None:
    file = write_position_deletes(tmp_path / "d.parquet", {ONE: [1]})
    assert set(file.column_sizes) == {PATH, POSITION}
    fields = pq.read_schema(path_of(file))
    assert [(each.metadata or {})[b"PARQUET:field_id"] for each in fields] == [b"2147483546", b"2147483545"]
    assert not any(each.nullable for each in fields)


def test_the_partition_is_recorded_and_a_sort_order_never(tmp_path: Path) -> None:
    file = write_position_deletes(tmp_path / "d.parquet", {ONE: [1]}, partition=Record("x", None), spec_id=4)
    assert (file.partition, file.spec_id) == (Record("x", None), 4)
    assert file.sort_order_id is None
    assert file.equality_ids is None


def test_many_files_with_many_rows_are_written_in_order(tmp_path: Path) -> None:
    positions = {f"file-{i:04}": np.arange(i % 70)[::-1] * 3 for i in range(2000)}
    table = pq.read_table(path_of(write_position_deletes(tmp_path / "d.parquet", positions)))
    expected = [(path, 3 * i) for path in sorted(positions) for i in range(len(positions[path]))]
    assert list(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True)) == expected


paths = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


@given(st.dictionaries(paths, st.sets(st.integers(0, 2**62), min_size=1, max_size=5), min_size=1, max_size=5))
def test_rows_are_sorted_as_iceberg_sorts(positions: dict[str, set[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lists = {path: list(found) for path, found in positions.items()}
        rows = rows_of(path_of(write_position_deletes(Path(folder) / "d.avro", lists)))
    expected = [(path, each) for path, found in positions.items() for each in found]
    assert [(row["file_path"], row["pos"]) for row in rows] == sorted(
        expected, key=lambda row: (row[0].encode(), row[1])
    )


@pytest.mark.parametrize(
    "properties",
    [
        {"write.parquet.compression-codec": "gzip", "write.delete.orc.compression-codec": "zstd"},
        {"write.parquet.compression-codec": "zstd", "write.delete.parquet.compression-codec": "gzip"},
    ],
)
def test_properties_of_deletes_win_over_those_of_data(tmp_path: Path, properties: dict[str, str]) -> None:
    file = write_position_deletes(tmp_path / "d.parquet", {ONE: [1]}, properties=properties)
    assert pq.read_metadata(path_of(file)).row_group(0).column(0).compression == "GZIP"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "parquet"),
        ({"write.format.default": "ORC"}, "orc"),
        ({"write.format.default": "orc", "write.delete.format.default": "avro"}, "avro"),
    ],
)
def test_deletes_have_the_format_of_data_unless_another_is_named(properties: dict[str, str], expected: str) -> None:
    assert delete_format(properties) == expected


@pytest.mark.parametrize("positions", [{}, {ONE: []}])
def test_a_file_without_positions_is_refused(tmp_path: Path, positions: dict[str, list[int]]) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no position to write to .*d\.orc"):
        write_position_deletes(tmp_path / "d.orc", positions)
    assert not list(tmp_path.iterdir())


def test_positions_that_no_row_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="from -2 to 4"):
        write_position_deletes(tmp_path / "d.parquet", {ONE: [4, -2]})
    assert not list(tmp_path.iterdir())


def test_a_format_that_is_not_installed_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(FormatNotRegisteredError):
        write_position_deletes(tmp_path / "d", {ONE: [4]}, file_format="excel")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    write_position_deletes(tmp_path / "d.parquet", {ONE: [1]})
    with pytest.raises(FileAlreadyExistsError):
        write_position_deletes(tmp_path / "d.parquet", {ONE: [2]})
    assert [row["pos"] for row in rows_of(tmp_path / "d.parquet")] == [1]


@pytest.mark.parametrize("name", FORMATS)
def test_a_failing_storage_leaves_no_file(name: str) -> None:
    sink = FailingSink(room=100)
    with pytest.raises(StorageError):
        write_position_deletes(sink, {ONE: np.arange(100_000)}, file_format=name)
    assert sink.data is None
    assert all(stream.closed for stream in sink.streams)
