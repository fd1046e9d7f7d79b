"""Written files as pyiceberg sees them: committed to a real table, pruned by our bounds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.batches.arrow.types import storage_type
from formatkit.contract import ColumnMetrics, FileMetrics, MetricsMode, WriteResult
from formatkit.write import write_file
from formatkit.write.data_file import data_file
from support.data_file_fields import fields_of

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "place", StructType(NestedField(5, "lat", DoubleType(), required=False)), required=False),
    NestedField(4, "tags", ListType(6, StringType(), element_required=False), required=False),
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a" * 40, "place": {"lat": 1.5}, "tags": ["x"]},
    {"id": 2, "name": None, "place": {"lat": nan}, "tags": []},
    {"id": 3, "name": "b", "place": None, "tags": None},
]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("ns")
    yield catalog
    catalog.close()


FIELDS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "name": pa.string(),
    "place": pa.struct([("lat", pa.float64())]),
    "tags": pa.list_(pa.string()),
}


def batch(rows: list[dict[str, Any]] = ROWS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, pa.schema(FIELDS))


def append(table: Table, *files: DataFile) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        for file in files:
            snapshot.append_data_file(file)


def write(table: Table, name: str, data: Any, properties: dict[str, str] | None = None, **details: Any) -> DataFile:
    written = write_file(f"{table.location()}/data/{name}.parquet", data, table.schema(), properties=properties)
    assert written is not None
    return written.to_data_file(**details)


def test_committed_files_are_read_by_pyiceberg(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    append(table, write(table, "one", batch()), write(table, "two", batch([{"id": 10, "name": "z"}])))
    by_id = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert sorted(by_id) == [1, 2, 3, 10]
    assert by_id[1] == ROWS[0]
    assert by_id[3] == ROWS[2]


def test_pyiceberg_prunes_by_our_bounds(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    append(table, write(table, "one", batch()), write(table, "two", batch([{"id": 10, "name": "z"}])))

    def planned(expression: str) -> list[str]:
        return [Path(task.file.file_path).stem for task in table.scan(expression).plan_files()]

    assert planned("id > 3") == ["two"]
    assert planned("id < 1") == []
    assert planned("name = 'z'") == ["two"]
    assert planned(f"name = '{'a' * 40}'") == ["one"]


def test_the_manifest_holds_what_was_measured(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    append(table, write(table, "one", batch()))
    (task,) = table.scan().plan_files()
    file = task.file
    path = Path(file.file_path.removeprefix("file://"))
    assert (file.record_count, file.file_size_in_bytes) == (3, path.stat().st_size)
    assert file.file_format is FileFormat.PARQUET
    assert file.split_offsets == [4]
    assert set(file.column_sizes) == {1, 2, 5, 6}
    assert {i: file.value_counts[i] for i in (1, 2, 5)} == {1: 3, 2: 3, 5: 3}
    assert {i: file.null_value_counts[i] for i in (1, 2, 5)} == {1: 0, 2: 1, 5: 1}
    assert dict(file.nan_value_counts) == {5: 1}
    assert {i: from_bytes(_kind(i), bound) for i, bound in file.lower_bounds.items()} == {1: 1, 2: "a" * 16, 5: 1.5}
    assert {i: from_bytes(_kind(i), bound) for i, bound in file.upper_bounds.items()} == {1: 3, 2: "b", 5: 1.5}


def _kind(field_id: int) -> PrimitiveType:
    kind = SCHEMA.find_type(field_id)
    assert isinstance(kind, PrimitiveType)
    return kind


def test_metrics_modes_decide_what_is_recorded(catalog: SqlCatalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    properties = {
        "write.metadata.metrics.default": "none",
        "write.metadata.metrics.column.name": "counts",
        "write.metadata.metrics.column.place.lat": "full",
    }
    file = write(table, "one", batch(), properties)
    assert set(file.column_sizes) == {2, 5}
    assert set(file.value_counts) == {2, 5}
    assert set(file.lower_bounds) == {5}


def test_partitioned_files_are_pruned_by_partition(catalog: SqlCatalog) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"), spec_id=0)
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=spec)
    properties = {"write.metadata.metrics.default": "none"}
    files = [
        write(table, str(i), batch([{"id": i}]), properties, partition=Record(i), spec_id=table.spec().spec_id)
        for i in (1, 2)
    ]
    append(table, *files)
    assert [task.file.record_count for task in table.scan("id = 2").plan_files()] == [1]
    assert table.scan("id = 2").to_arrow().column("id").to_pylist() == [2]
    assert [file.spec_id for file in files] == [0, 0]


BOUNDS: list[tuple[IcebergType, Any, Any]] = [
    (BooleanType(), [False, True], (b"\0", b"\1")),
    (DoubleType(), [0.0, -0.0], (b"\0" * 7 + b"\x80", b"\0" * 8)),
    (FloatType(), [1.0, 1.0], (b"\0\0\x80?", b"\0\0\x80?")),
    (DecimalType(9, 2), [Decimal("-1.28"), Decimal("3.00")], (b"\x80", b"\x01\x2c")),
    (DecimalType(38, 0), [Decimal(0), Decimal(10**37)], (b"\0", (10**37).to_bytes(16))),
    (DateType(), [date(1969, 12, 31), date(1970, 1, 2)], (b"\xff" * 4, b"\1\0\0\0")),
    (TimeType(), [time(0), time(0, 0, 0, 1)], (b"\0" * 8, b"\1" + b"\0" * 7)),
    (TimestampType(), [datetime(1969, 12, 31, 23, 59, 59, 999999)] * 2, (b"\xff" * 8, b"\xff" * 8)),
    (TimestamptzType(), [datetime(1970, 1, 1, tzinfo=UTC)] * 2, (b"\0" * 8, b"\0" * 8)),
    (StringType(), ["", "é" * 20], (b"", ("é" * 15 + "ê").encode())),
    (UUIDType(), [UUID(int=1), UUID(int=2**127)], (b"\0" * 15 + b"\1", b"\x80" + b"\0" * 15)),
    (FixedType(2), [b"\0\0", b"\xff\xff"], (b"\0\0", b"\xff\xff")),
    (BinaryType(), [b"", b"\xff" * 20], (b"", None)),
]


@pytest.mark.parametrize(("kind", "values", "bounds"), BOUNDS, ids=[str(kind) for kind, _, _ in BOUNDS])
def test_bounds_have_icebergs_binary_form(tmp_path: Path, kind: IcebergType, values: Any, bounds: Any) -> None:
    plain = [value.bytes if isinstance(value, UUID) else value for value in values]
    schema = Schema(NestedField(1, "a", kind, required=False))
    written = write_file(tmp_path / "x.parquet", pa.table({"a": pa.array(plain, storage_type(kind))}), schema)
    assert written is not None
    file = written.to_data_file()
    assert (file.lower_bounds.get(1), file.upper_bounds.get(1)) == bounds


def test_formats_that_pyiceberg_does_not_know_keep_their_name() -> None:
    result = WriteResult(location="x.vortex", size_bytes=10, row_count=1)
    metrics = FileMetrics(row_count=1, columns={1: ColumnMetrics(value_count=1)})
    file = data_file(result, metrics, {1: MetricsMode.parse("full")}, SCHEMA, file_format="vortex", sort_order_id=3)
    assert file.file_format == "VORTEX"
    assert [file.column_sizes, file.split_offsets, file.sort_order_id] == [None, None, 3]


def test_data_files_have_the_fields_of_version_3_and_leave_them_open(tmp_path: Path) -> None:
    written = write_file(tmp_path / "x.parquet", batch(), SCHEMA)
    assert written is not None
    fields = fields_of(written.to_data_file())
    names = {"first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes", "equality_ids"}
    assert not names & set(fields)
    assert len(written.to_data_file()) == 20
