"""Scans of single files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

import formatkit
from formatkit.errors import (
    ColumnNotFoundError,
    ConfigurationError,
    CorruptFileError,
    FileMissingError,
    FormatNotRegisteredError,
    MissingRequiredFieldError,
    StorageError,
)
from formatkit.io import MemorySource

FILE_SCHEMA = Schema(
    NestedField(5, "n", IntegerType(), required=False),
    NestedField(
        7, "pair", StructType(NestedField(8, "a", LongType()), NestedField(9, "b", StringType())), required=False
    ),
)
ROWS: list[dict[str, Any]] = [
    {"n": 1, "pair": {"a": 10, "b": "x"}},
    {"n": None, "pair": None},
    {"n": 3, "pair": {"a": None, "b": "z"}},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS, schema=schema_to_pyarrow(FILE_SCHEMA)), path, row_group_size=2)
    return path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The same rows without field ids."""
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


def test_a_file_is_read_with_its_own_ids_and_names(file: Path) -> None:
    scan = formatkit.read_file(file)
    assert scan.to_arrow().to_pylist() == ROWS
    assert scan.schema.fields == FILE_SCHEMA.fields
    assert scan.count() == 3


def test_a_file_without_ids_gets_fresh_ones(plain: Path) -> None:
    scan = formatkit.read_file(plain, "pair.a = 10", select=("pair.b", "_pos"))
    assert scan.to_arrow().to_pylist() == [{"pair": {"b": "x"}, "_pos": 0}]
    assert formatkit.read_file(plain).to_arrow().to_pylist() == ROWS
    assert all(id_ > 0 for id_ in formatkit.read_file(plain).schema.field_ids)


@pytest.mark.parametrize("kind", ["path", "text", "uri", "input file", "bytes", "source"])
def test_a_file_may_be_given_in_many_ways(file: Path, kind: str) -> None:
    given: dict[str, Any] = {
        "path": file,
        "text": str(file),
        "uri": file.as_uri(),
        "input file": PyArrowFileIO().new_input(file.as_uri()),
        "bytes": file.read_bytes(),
        "source": MemorySource(file.read_bytes()),
    }
    scan = formatkit.read_file(given[kind], "n is not null", select="n")
    assert scan.to_arrow().to_pydict() == {"n": [1, 3]}
    assert scan.to_arrow().to_pydict() == {"n": [1, 3]}


def test_a_source_stays_the_callers(file: Path) -> None:
    source = MemorySource(file.read_bytes())
    formatkit.read_file(source).to_arrow()
    assert bytes(source.read(0, 4)) == b"PAR1"


def test_a_file_is_evolved_to_the_given_schema_by_id(file: Path) -> None:
    schema = Schema(
        NestedField(7, "twin", StructType(NestedField(9, "second", StringType())), required=False),
        NestedField(5, "number", LongType(), required=False),
        NestedField(99, "extra", StringType(), required=False, initial_default="new"),
    )
    scan = formatkit.read_file(file, "number > 2 or extra != 'new'", schema=schema)
    assert scan.to_arrow().to_pylist() == [{"twin": {"second": "z"}, "number": 3, "extra": "new"}]
    assert scan.arrow_schema.field("number").type == pa.int64()


def test_a_file_without_ids_is_evolved_to_the_given_schema_by_name(plain: Path) -> None:
    schema = Schema(NestedField(3, "n", LongType(), required=False), NestedField(4, "m", LongType(), required=False))
    assert formatkit.read_file(plain, schema=schema).to_arrow().to_pydict() == {"n": [1, None, 3], "m": [None] * 3}


def test_a_required_column_that_the_file_lacks_is_refused(file: Path) -> None:
    schema = Schema(NestedField(99, "extra", StringType(), required=True))
    with pytest.raises(MissingRequiredFieldError):
        formatkit.read_file(file, schema=schema).to_arrow()


def test_the_format_is_told_by_the_first_bytes_if_the_name_says_nothing(file: Path) -> None:
    renamed = file.rename(file.with_name("rows.data"))
    assert formatkit.read_file(renamed).count() == 3
    assert formatkit.read_file(renamed, file_format="PARQUET").count() == 3


@pytest.mark.parametrize(
    ("content", "name", "error"),
    [
        (b"", "empty.parquet", CorruptFileError),
        (b"PAR1 but no more", "short.parquet", CorruptFileError),
        (b"x" * 1000, "foreign.parquet", CorruptFileError),
        (b"x" * 1000, "foreign.dat", FormatNotRegisteredError),
        (b"", "empty.dat", FormatNotRegisteredError),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, content: bytes, name: str, error: type[Exception]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(error, match=name):
        formatkit.read_file(path)
    assert str(path) not in {os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}  # noqa: PTH115


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match=r"nowhere\.parquet"):
        formatkit.read_file(tmp_path / "nowhere.parquet")
    folder = tmp_path / "folder.parquet"
    folder.mkdir()
    with pytest.raises(StorageError, match=r"folder\.parquet"):
        formatkit.read_file(folder)


def test_wrong_arguments_are_refused(file: Path) -> None:
    with pytest.raises(ColumnNotFoundError):
        formatkit.read_file(file, select=("_partition",))
    with pytest.raises(FormatNotRegisteredError, match="nonsense"):
        formatkit.read_file(file, file_format="nonsense")
    with pytest.raises(ConfigurationError):
        formatkit.read_file(file, threads=0)


def test_metadata_columns_of_a_file_are_those_of_no_table(file: Path) -> None:
    scan = formatkit.read_file(file, "n = 3", select=("_file", "_pos", "_spec_id", "_row_id"))
    assert scan.to_arrow().to_pylist() == [{"_file": str(file), "_pos": 2, "_spec_id": 0, "_row_id": None}]
