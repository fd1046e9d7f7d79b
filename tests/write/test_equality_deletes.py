"""Equality-delete files of every format, read by other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DateType,
    DoubleType,
    FloatType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, InvalidDataError, SchemaResolutionError
from formatkit.write.deletes import write_equality_deletes
from support.data_file_fields import field_of
from support.foreign_readers import FORMATS, METADATA, rows_of

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "day", DateType(), required=True),
    NestedField(
        4,
        "place",
        StructType(
            NestedField(5, "town", StringType(), required=False), NestedField(6, "lat", DoubleType(), required=True)
        ),
        required=False,
    ),
    NestedField(7, "tags", ListType(8, StringType(), element_required=False), required=False),
    NestedField(9, "score", FloatType(), required=False),
    NestedField(10, "facts", MapType(11, StringType(), 12, LongType(), value_required=False), required=False),
    NestedField(13, "anything", VariantType(), required=False),
    NestedField(14, "key", BinaryType(), required=False),
    schema_id=3,
)


def path_of(file: DataFile | None) -> Path:
    assert file is not None
    return Path(file.file_path)


@pytest.mark.parametrize("name", FORMATS)
def test_other_libraries_read_what_is_deleted(tmp_path: Path, name: str) -> None:
    rows = pa.table({"name": ["a", None], "id": [1, 2]})
    file = write_equality_deletes(tmp_path / f"d.{name}", rows, SCHEMA, [2, 1])
    assert file is not None
    assert rows_of(path_of(file)) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert file.content is DataFileContent.EQUALITY_DELETES
    assert file.equality_ids == [2, 1]
    assert (file.record_count, file.file_size_in_bytes) == (2, path_of(file).stat().st_size)
    assert field_of(file, "referenced_data_file") is None


@pytest.mark.parametrize("name", METADATA)
def test_files_say_by_which_columns_they_delete(tmp_path: Path, name: str) -> None:
    rows = pa.table({"name": ["a", None], "id": [1, 2]})
    found = METADATA[name](path_of(write_equality_deletes(tmp_path / f"d.{name}", rows, SCHEMA, [1, 2])))
    assert (found["delete-type"], found["delete-field-ids"]) == ("equality", "1, 2")


@pytest.mark.parametrize("name", FORMATS)
def test_metrics_are_of_the_deleted_rows(tmp_path: Path, name: str) -> None:
    scores = pa.array([1.5, float("nan")], pa.float32())
    rows = pa.table({"id": [1, 2], "name": ["b" * 20, None], "score": scores})
    file = write_equality_deletes(tmp_path / f"d.{name}", rows, SCHEMA, [1])
    assert file is not None
    assert file.value_counts == {1: 2, 2: 2, 9: 2}
    assert file.null_value_counts == {1: 0, 2: 1, 9: 0}
    assert file.nan_value_counts == {9: 1}
    assert file.lower_bounds[2] == b"b" * 16
    assert file.upper_bounds[2] == b"b" * 15 + b"c"


def test_columns_inside_structs_are_compared_without_their_neighbours(tmp_path: Path) -> None:
    rows = pa.table({"place": [{"town": "x"}, {"town": None}, None]})
    file = write_equality_deletes(tmp_path / "d.parquet", rows, SCHEMA, [5])
    assert rows_of(path_of(file)) == [{"place": {"town": "x"}}, {"place": {"town": None}}, {"place": None}]


def test_other_columns_may_be_stored_too(tmp_path: Path) -> None:
    rows = pa.table({"tags": [["x"], None], "key": [b"k", None]})
    file = write_equality_deletes(tmp_path / "d.parquet", rows, SCHEMA, [14])
    assert rows_of(path_of(file)) == [{"tags": ["x"], "key": b"k"}, {"tags": None, "key": None}]


def test_partition_and_order_are_recorded(tmp_path: Path) -> None:
    file = write_equality_deletes(
        tmp_path / "d.parquet", pa.table({"id": [1]}), SCHEMA, [1], partition=Record(7), spec_id=2, sort_order_id=5
    )
    assert file is not None
    assert (file.partition, file.spec_id, file.sort_order_id) == (Record(7), 2, 5)


@pytest.mark.parametrize(
    ("equality_ids", "message"),
    [
        ([], "need at least one equality id"),
        ([1, 2, 1], r"name \[1\] more than once"),
        ([1, 99], r"equality id 99 is no column of the schema; it could be one of 1 \(id\), 2 \(name\), 3 \(day\)"),
        ([4], r"column 'place' \(id 4\) of type struct"),
        ([6], r"column 'place.lat' \(id 6\) of type double"),
        ([9], r"column 'score' \(id 9\) of type float"),
        ([7], r"column 'tags' \(id 7\) of type list<string>"),
        ([8], r"column 'tags.element' \(id 8\) of type string"),
        ([11], r"column 'facts.key' \(id 11\) of type string"),
        ([13], r"column 'anything' \(id 13\) of type variant"),
    ],
)
def test_columns_by_which_rows_cannot_be_compared_are_refused(
    tmp_path: Path, equality_ids: list[int], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        write_equality_deletes(tmp_path / "d.parquet", pa.table({"id": [1]}), SCHEMA, equality_ids)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("columns", "equality_ids", "message"),
    [
        ({"id": [1]}, [1, 2], "no column 'name', by which they delete"),
        ({"id": [1], "place": [{"lat": 1.0}]}, [5], "no column 'place.town', by which they delete"),
        ({"id": [1], "other": [1]}, [1], "column 'other' of the data is not in the schema"),
        ({"id": ["x"]}, [1], "column 'id' has the Arrow type string"),
        ({"id": [1], "place": [1]}, [1], "column 'place' has the Arrow type int64"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    tmp_path: Path, columns: dict[str, list[Any]], equality_ids: list[int], message: str
) -> None:
    with pytest.raises(SchemaResolutionError, match=message):
        write_equality_deletes(tmp_path / "d.parquet", pa.table(columns), SCHEMA, equality_ids)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("later", "error"),
    [
        ({"id": [1]}, SchemaResolutionError),
        ({"id": [1], "place": [{}]}, SchemaResolutionError),
        ({"id": [None], "place": [{"town": "x"}]}, InvalidDataError),
    ],
)
def test_later_rows_that_do_not_fit_leave_no_file(
    tmp_path: Path, name: str, later: dict[str, list[Any]], error: type[Exception]
) -> None:
    kinds = {"id": pa.int64(), "place": pa.struct([("town", pa.string())])}
    first = pa.record_batch({"id": pa.array([1]), "place": pa.array([{"town": "x"}], kinds["place"])})
    second = pa.record_batch(
        {column: pa.array(values, kinds[column] if values != [{}] else None) for column, values in later.items()}
    )

    def rows() -> Iterator[pa.RecordBatch]:
        yield first
        yield second

    with pytest.raises(error):
        write_equality_deletes(tmp_path / f"d.{name}", rows(), SCHEMA, [1])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rows", [pa.table({"id": pa.array([], pa.int64())}), []])
def test_no_rows_make_no_file(tmp_path: Path, rows: Any) -> None:
    assert write_equality_deletes(tmp_path / "d.parquet", rows, SCHEMA, [1]) is None
    assert not list(tmp_path.iterdir())
