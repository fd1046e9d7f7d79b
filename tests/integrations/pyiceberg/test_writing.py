from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io import OutputFile
from pyiceberg.io.fileformat import FileFormatFactory, FileFormatWriter
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, TruncateTransform
from pyiceberg.typedef import Properties
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

import formatkit
from formatkit.errors import UnsupportedError
from formatkit.integrations.pyiceberg.file_formats import FormatModel
from formatkit.registry import default_registry
from support.animals import ANIMALS, animals, by_id, new_table
from support.iceberg_tables import local_path

pytestmark = pytest.mark.usefixtures("formatkit_in_pyiceberg")
FORMATS = default_registry().names()


def ids(table: Table, row_filter: str = "id > 0") -> list[Any]:
    return by_id(table.scan(row_filter).to_arrow())["id"].to_pylist()


def files(table: Table) -> list[Path]:
    return [path for path in (local_path(table.location()) / "data").rglob("*") if path.is_file()]


@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "partitioned"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_every_format_goes_through_the_life_of_a_table(
    catalog: InMemoryCatalog, file_format: str, partitioned: bool
) -> None:
    table = new_table(catalog, file_format=file_format, partitioned=partitioned)
    table.append(ANIMALS)
    table.delete("id = 2 or weight > 70")
    assert ids(table) == [1, 4, 5, 6]
    table.overwrite(animals((7, "cat", 1.0), (8, "ant", 0.1)), "kind = 'cat'")
    assert ids(table) == [5, 6, 7, 8]
    result = table.upsert(animals((8, "ant", 0.2), (9, "bee", 0.3)))
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    rows = by_id(table.scan(selected_fields=("id", "kind", "weight")).to_arrow()).to_pylist()
    assert [tuple(row.values()) for row in rows[-2:]] == [(8, "ant", 0.2), (9, "bee", 0.3)]
    assert {file.suffix for file in files(table)} == set(default_registry().plugins(file_format)[0].extensions[:1])
    assert by_id(formatkit.scan(table).to_arrow()).equals(by_id(table.scan().to_arrow()))


def test_files_are_described_as_formatkit_describes_them(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, file_format="orc")
    table.append(ANIMALS)
    (file,) = table.inspect.files().to_pylist()
    assert file["record_count"] == 6
    assert file["readable_metrics"]["weight"] | {"column_size": 0} == {
        "column_size": 0,
        "value_count": 6,
        "null_value_count": 1,
        "nan_value_count": 1,
        "lower_bound": 4.5,
        "upper_bound": 80.0,
    }
    assert file["readable_metrics"]["kind"]["upper_bound"] == "emu"


def test_every_transform_places_rows_without_further_libraries(catalog: InMemoryCatalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "at", TimestampType()), NestedField(3, "s", StringType())
    )
    spec = PartitionSpec(
        PartitionField(1, 1000, BucketTransform(4), "b"),
        PartitionField(2, 1001, DayTransform(), "d"),
        PartitionField(3, 1002, TruncateTransform(2), "t"),
    )
    table = catalog.create_table("db.t", schema, partition_spec=spec)
    rows = pa.table(
        {"id": [1, 2, None], "at": pa.array([0, 10**12, None], pa.timestamp("us")), "s": ["abc", "x", None]}
    )
    table.append(rows)
    assert len(list(table.scan().plan_files())) == 3
    assert table.scan("s = 'abc' and id = 1").to_arrow()["at"].cast(pa.int64()).to_pylist() == [0]
    table.append(rows.to_reader())
    assert table.scan().count() == 6


def test_lists_of_structs_that_are_null_stay_null(catalog: InMemoryCatalog) -> None:
    rows = pa.table({"points": pa.array([None, [], [{"x": 1}]], pa.list_(pa.struct([("x", pa.int64())])))})
    table = catalog.create_table("db.points", rows.schema)
    table.append(rows)
    assert table.scan().to_arrow()["points"].to_pylist() == [None, [], [{"x": 1}]]


def test_columns_that_carry_ids_are_matched_by_them(catalog: InMemoryCatalog) -> None:
    table = catalog.create_table("db.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    rows = pa.table({"a": [1], "b": [2]}, schema=schema_to_pyarrow(table.schema()))
    with table.update_schema() as update:
        update.rename_column("a", "old_a")
        update.rename_column("b", "a")
    table.append(rows)
    assert table.scan().to_arrow().to_pylist() == [{"old_a": 1, "a": 2}]


def failing() -> Iterator[pa.RecordBatch]:
    yield from ANIMALS.to_batches()
    raise OSError("the source is gone")


@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "partitioned"])
def test_an_append_that_fails_leaves_no_data_file(catalog: InMemoryCatalog, partitioned: bool) -> None:
    table = new_table(catalog, partitioned=partitioned)
    with pytest.raises(OSError, match="the source is gone"):
        table.append(pa.RecordBatchReader.from_batches(ANIMALS.schema, failing()))
    assert files(table) == []
    assert table.current_snapshot() is None


def test_rows_that_do_not_fit_are_refused_as_before(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, file_format="avro")
    with pytest.raises(ValueError, match="Mismatch in fields"):
        table.append(pa.table({"id": ["one"]}))
    with pytest.raises(ValueError, match="contains more columns"):
        table.append(ANIMALS.append_column("age", pa.array([1] * 6)))
    assert files(table) == []


@pytest.mark.parametrize("kinds", [[None, None], ["cat", None], ["dog", None]], ids=str)
def test_a_delete_takes_the_rows_that_a_scan_with_its_filter_shows(catalog: InMemoryCatalog, kinds: list[Any]) -> None:
    table = new_table(catalog)
    table.append(animals(*enumerate(kinds, start=1)))
    doomed = ids(table, "kind != 'cat'")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match any records")
        table.delete("kind != 'cat'")
    assert ids(table) == sorted({1, 2} - set(doomed))
    assert 2 not in doomed


def test_writing_through_the_factory_describes_the_file(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = new_table(catalog)
    model = FileFormatFactory.get(FileFormat.AVRO)
    output = table.io.new_output(str(tmp_path / "x.avro"))
    with model.create_writer(output, table.schema(), {}) as writer:
        writer.write(ANIMALS.slice(0, 2))
        writer.write(ANIMALS.slice(2))
    statistics = writer.result()
    assert statistics.record_count == 6
    assert statistics.column_aggregates[1].current_max == 6
    assert formatkit.read_file(tmp_path / "x.avro").count() == 6


def test_a_writer_of_the_factory_that_fails_leaves_no_file(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = new_table(catalog)
    path = tmp_path / "x.orc"
    writer = FileFormatFactory.get(FileFormat.ORC).create_writer(table.io.new_output(str(path)), table.schema(), {})
    with pytest.raises(OSError, match="the source is gone"), writer:
        writer.write(pa.Table.from_batches(failing()))
    assert not path.exists()


def test_tables_of_version_3_are_made_here_and_written_by_formatkits_own_functions(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, properties={"format-version": "3"})
    with table.update_schema() as update:
        update.add_column("age", LongType())
    with pytest.raises(UnsupportedError, match=r"use formatkit\.append"):
        table.append(ANIMALS)
    with pytest.raises(UnsupportedError, match=r"use formatkit\.append"):
        table.delete("id = 1")
    assert files(table) == []
    formatkit.append(table, ANIMALS)
    assert ids(table, "age is null and id < 3") == [1, 2]


class ForeignModel:
    """A writer of ORC that a program brings along."""

    @property
    def format(self) -> FileFormat:
        return FileFormat.ORC

    def file_extension(self) -> str:
        return "foreign.orc"

    def create_writer(self, output_file: OutputFile, file_schema: Schema, properties: Properties) -> FileFormatWriter:
        return FormatModel(FileFormat.ORC, "orc", default_registry()).create_writer(
            output_file, file_schema, properties
        )

    def add_field_metadata(self, field: NestedField, metadata: dict[bytes, bytes], include_field_ids: bool) -> None:
        pass


def test_a_writer_that_a_program_registers_takes_the_place_of_formatkits(
    catalog: InMemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileFormatFactory, "_registry", dict(FileFormatFactory._registry))
    table = new_table(catalog, file_format="orc")
    FileFormatFactory.register(ForeignModel())
    with pytest.raises(ValueError, match="already registered"):
        FileFormatFactory.register(ForeignModel())
    table.append(ANIMALS)
    assert [path.name.partition(".")[2] for path in files(table)] == ["foreign.orc"]
    assert table.scan().count() == len(ANIMALS)
