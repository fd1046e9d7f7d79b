"""Tables and files without a fault give no finding."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import Or
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

import formatkit
from formatkit.batches.arrow import arrow_schema
from formatkit.errors import ConfigurationError, FileMissingError
from support.filters import EqualTo
from support.lived_tables import LivedTable, lived_tables
from support.modelled_table import new_table
from support.operated_tables import BY_BUCKET, BY_PART, delete_by_equality, filled_table, some_rows, upgrade
from support.written_tables import ALL_FORMATS, data_files, spec
from support.written_tables import new_table as table_in


@pytest.mark.parametrize("partitions", [PartitionSpec(), BY_PART, BY_BUCKET], ids=["plain", "part", "bucket"])
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_tables_of_our_own(tmp_path: Path, version: int, file_format: str, partitions: PartitionSpec) -> None:
    model = filled_table(tmp_path, version, partitions=partitions, file_format=file_format)
    if version > 1:
        model.delete(Or(EqualTo("id", 3), EqualTo("id", 14)), "merge-on-read")
        delete_by_equality(model, [4, 15])
    model.delete(EqualTo("id", 7), "copy-on-write")
    report = formatkit.validate(model.table)
    assert report.findings == ()
    assert report.ok
    assert report.checked["rows"] >= 19
    model.rewrite(all_files=True)
    assert formatkit.validate(model.table).findings == ()


def test_a_table_that_became_one_of_version_3(tmp_path: Path) -> None:
    model = filled_table(tmp_path, 2, partitions=BY_PART)
    upgrade(model)
    model.append(some_rows(20, 30))
    model.delete(EqualTo("id", 3), "merge-on-read")
    assert formatkit.validate(model.table).findings == ()


def test_tables_of_pyiceberg(tmp_path: Path) -> None:
    with load_catalog("c", type="in-memory", warehouse=tmp_path.as_uri()) as catalog:
        catalog.create_namespace("ns")
        rows = pa.table(
            {"id": pa.array([1, None, 3], pa.int32()), "x": [0.5, math.nan, -0.0], "s": ["a" * 40, None, "b"]}
        )
        table = catalog.create_table("ns.t", rows.schema, properties={"format-version": "2"})
        table.append(rows)
        with table.update_spec() as update:
            update.add_field("s", IdentityTransform(), "part")
        table.append(rows)
        with table.update_schema() as schema:
            schema.update_column("id", LongType())
            schema.rename_column("s", "t")
            schema.add_column("later", DateType())
        table.append(pa.table({"id": [2**40], "x": [1.0], "t": ["c"], "later": pa.array([3], pa.date32())}))
        table.delete("id = 3")
        assert formatkit.validate(table.refresh()).findings == ()


@given(lived_tables())
def test_tables_that_have_lived(tmp_path_factory: pytest.TempPathFactory, lived: LivedTable) -> None:
    table, _ = lived.build(tmp_path_factory.mktemp("lived"))
    # These tables have no totals, and some files of version 3 have no row ids.
    expected = {"snapshot-summary", "row-id-range"}
    assert [each for each in formatkit.validate(table).findings if each.code not in expected] == []


TYPED: list[tuple[Any, Any, list[Any]]] = [
    (TimestampType(), DayTransform(), [-1, 0, 10**15]),
    (TimestamptzType(), HourTransform(), [-(10**12), 3]),
    (DateType(), MonthTransform(), [-40, 0, 20_000]),
    (DateType(), YearTransform(), [-400, 0]),
    (DecimalType(9, 2), TruncateTransform(50), ["-1.05", "7.31"]),
    (UUIDType(), BucketTransform(4), [bytes(16), b"\xff" * 16]),
    (BinaryType(), IdentityTransform(), [b"\xff\x00", b""]),
    (StringType(), BucketTransform(7), ["", "\U0010ffff"]),
    (DoubleType(), IdentityTransform(), [0.5, -0.0, math.nan]),
]


@pytest.mark.parametrize(("kind", "transform", "values"), TYPED, ids=lambda each: str(each)[:30])
def test_partitions_by_every_transform(tmp_path: Path, kind: Any, transform: Any, values: list[Any]) -> None:
    schema = Schema(NestedField(1, "v", kind), NestedField(2, "n", LongType()))
    table = new_table(tmp_path, schema, spec=spec((1, transform)))
    arrow = arrow_schema(schema)
    plain = [Decimal(value) if isinstance(kind, DecimalType) and value else value for value in (*values, None)]
    wanted = arrow.types[0]
    column: Any = pa.array(plain, getattr(wanted, "storage_type", wanted))
    if isinstance(wanted, pa.BaseExtensionType):
        column = pa.ExtensionArray.from_storage(wanted, column)
    formatkit.append(table, pa.table([column, pa.array(range(len(plain)), pa.int64())], schema=arrow))
    assert formatkit.validate(table).findings == ()


def test_sorted_files_of_several_batches(tmp_path: Path) -> None:
    order = SortOrder(
        SortField(1, direction=SortDirection.DESC, transform=IdentityTransform()),
        SortField(2, transform=IdentityTransform()),
        order_id=1,
    )
    rows = pa.table(
        {
            "a": [i % 7 if i % 5 else None for i in range(5000)],
            "b": [math.nan if i % 3 else i / 7 for i in range(5000)],
        }
    )
    columns = (NestedField(1, "a", LongType()), NestedField(2, "b", DoubleType()))
    with load_catalog("c", type="in-memory", warehouse=tmp_path.as_uri()) as catalog:
        catalog.create_namespace("db")
        table = table_in(catalog, *columns, sort_order=order)
        formatkit.append(table, rows)
        assert [file.sort_order_id for file in data_files(table)] == [1]
        assert formatkit.validate(table).findings == ()


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_files(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"a.{file_format}"
    rows = pa.table(
        {
            "id": pa.array([None if i % 11 == 0 else i for i in range(5000)], pa.int64()),
            "x": [math.nan if i % 7 == 0 else i / 3 for i in range(5000)],
            "s": [f"{i % 50:05}" for i in range(5000)],
            "l": [[i, None] for i in range(5000)],
            "p": [{"q": i if i % 3 else None} for i in range(5000)],
        }
    )
    formatkit.write_file(path, rows, properties={"write.parquet.row-group-limit": "1500"})
    report = formatkit.validate(path)
    assert report.findings == ()
    assert report.to_dict() == {
        "target": str(path),
        "ok": True,
        "checked": {"files": 1, "rows": 5000},
        "findings": [],
    }
    assert "sound (1 files, 5,000 rows)" in str(report)


def test_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, None, 3], "d": pa.array([1, 2, 3], pa.duration("s"))}), path)
    report = formatkit.validate(path)
    assert report.ok


def test_bytes_are_validated(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    assert formatkit.validate(sink.getvalue()).ok


def test_a_target_that_is_not_there_is_no_finding(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError):
        formatkit.validate(tmp_path / "nothing.parquet")
    with pytest.raises(FileMissingError):
        formatkit.validate(tmp_path / "v1.metadata.json")


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    with pytest.raises(ConfigurationError, match="no snapshot 1"):
        formatkit.validate(model.table, snapshot_id=1)
    with pytest.raises(ConfigurationError, match="each file"):
        formatkit.validate(model.table, file_format="orc")
    with pytest.raises(ConfigurationError, match="one data file"):
        formatkit.validate(tmp_path / "a.parquet", metadata_only=True)


def test_one_snapshot_may_be_chosen(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    first = model.table.snapshots()[0].snapshot_id
    report = formatkit.validate(model.table, snapshot_id=first)
    assert report.findings == ()
    assert (report.checked["snapshots"], report.checked["rows"]) == (1, 12)
    assert "rows" not in formatkit.validate(model.table, metadata_only=True).checked
