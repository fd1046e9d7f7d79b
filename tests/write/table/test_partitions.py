"""Rows are placed in the partitions that they belong to, whatever the transform and the values are."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
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

import formatkit
from formatkit.batches.arrow.types import arrow_type
from formatkit.contract.values import internal_value
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.write.partition import Partitioner
from support.filters import EqualTo, IsNull
from support.iceberg_tables import local_path
from support.written_tables import ALL_FORMATS, data_files, files_on_disk, new_table, spec, table_rows

ID = NestedField(1, "id", LongType(), required=True)

MOMENTS = [-1, 0, 1_577_836_800_000_001, 1_577_923_200_000_000]
VALUES: dict[PrimitiveType, list[Any]] = {
    BooleanType(): [True, False],
    IntegerType(): [-1, 0, 7, 1234],
    LongType(): [-1, 0, 2**40],
    FloatType(): [0.0, -0.0, 1.5, math.nan],
    DoubleType(): [0.0, -0.0, 0.1, math.nan],
    DecimalType(9, 2): [Decimal("-1.05"), Decimal("0.00"), Decimal("12.34")],
    DecimalType(38, 0): [Decimal(-1), Decimal(10**37)],
    DateType(): [-1, 0, 18262],
    TimeType(): [0, 86_399_999_999],
    TimestampType(): MOMENTS,
    TimestamptzType(): MOMENTS,
    StringType(): ["", "a", "apple pie", "Ünïcode/😀"],
    BinaryType(): [b"", b"\0\xff/"],
    FixedType(2): [b"ab", b"\0/"],
    UUIDType(): [b"k" * 16, bytes(16)],
}
TRANSFORMS: list[Transform[Any, Any]] = [
    IdentityTransform(),
    VoidTransform(),
    BucketTransform(4),
    TruncateTransform(2),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
]
LEGAL = [(transform, kind) for transform in TRANSFORMS for kind in VALUES if transform.can_transform(kind)]


def column_of(kind: PrimitiveType, values: list[Any]) -> Any:
    if isinstance(kind, UUIDType):
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
    return pa.array(values, arrow_type(kind))


def same(left: Any, right: Any) -> bool:
    """Equal with NaN, and with −0.0 told from 0.0."""
    return repr(left) == repr(right)


@pytest.mark.parametrize(("transform", "kind"), LEGAL, ids=str)
def test_manifests_have_the_value_that_the_transform_gives(
    catalog: InMemoryCatalog, transform: Transform[Any, Any], kind: PrimitiveType
) -> None:
    table = new_table(catalog, ID, NestedField(2, "v", kind), partitions=spec((2, transform)))
    values = [*VALUES[kind], None] * 3
    data = pa.table({"id": range(len(values)), "v": column_of(kind, values)})
    formatkit.append(table, data)
    transformed = transform.transform(kind)
    wanted = {repr(transformed(value)) for value in values}
    stored = stored_partitions(table)
    assert sorted(repr(partition) for partition, _ in stored) == sorted(wanted)
    for partition, location in stored:
        identifiers: list[Any] = formatkit.read_file(location).to_arrow()["id"].to_pylist()
        assert all(same(transformed(values[i]), partition) for i in identifiers)
    read = formatkit.scan(table).to_arrow().sort_by("id")
    assert same(read["v"].to_pylist(), data["v"].to_pylist())


def stored_partitions(table: Table) -> list[tuple[Any, str]]:
    """The only partition value and the location of each file, as an Avro library finds them in the manifests.

    pyiceberg's own reader takes doubles for floats.
    """
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (kind,) = (field.field_type for field in table.spec().partition_type(table.schema()).fields)
    stored = []
    for manifest in snapshot.manifests(table.io):
        with local_path(manifest.manifest_path).open("rb") as stream:
            entries: Any = fastavro.reader(stream)
            for entry in entries:
                (value,) = entry["data_file"]["partition"].values()
                if isinstance(value, datetime) and isinstance(kind, TimestampType):
                    value = value.replace(tzinfo=None)  # fastavro takes all timestamps for instants
                stored.append((internal_value(kind, value), entry["data_file"]["file_path"]))
    return stored


def test_pyiceberg_finds_rows_by_their_partition(catalog: InMemoryCatalog) -> None:
    table = new_table(
        catalog,
        ID,
        NestedField(2, "at", TimestamptzType()),
        NestedField(3, "city", StringType()),
        partitions=spec((1, BucketTransform(4)), (2, DayTransform()), (3, IdentityTransform())),
    )
    moments = [datetime(2020, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)] * 20
    data = pa.table({"id": range(60), "at": pa.array(moments), "city": ["Rome", "Oslo", None, "São Paulo"] * 15})
    formatkit.append(table, data)
    assert table.scan().to_arrow().sort_by("id").to_pydict() == data.to_pydict()
    for identifier in (0, 17, 59):
        assert table.scan(f"id = {identifier}").to_arrow()["id"].to_pylist() == [identifier]
    oslo: Any = table.scan("city = 'Oslo' and at < '2020-01-02T00:00:00+00:00'").to_arrow()
    assert sorted(oslo["id"].to_pylist()) == [i for i in range(60) if i % 4 == 1 and i % 3 == 0]


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_each_format_is_partitioned(catalog: InMemoryCatalog, file_format: str) -> None:
    table = new_table(catalog, ID, NestedField(2, "v", StringType()), partitions=spec((2, IdentityTransform())))
    formatkit.append(table, pa.table({"id": [1, 2, 3, 4], "v": ["a", "b", None, "a"]}), file_format)
    assert table_rows(table) == [(1, "a"), (2, "b"), (3, None), (4, "a")]
    assert table_rows(table, where="v = 'a'") == [(1, "a"), (4, "a")]
    assert len(files_on_disk(table)) == 3


def test_a_column_inside_a_struct_may_be_partitioned_by(catalog: InMemoryCatalog) -> None:
    place = StructType(NestedField(3, "city", StringType()), NestedField(4, "x", LongType()))
    table = new_table(catalog, ID, NestedField(2, "place", place), partitions=spec((3, IdentityTransform())))
    rows = [{"city": "Rome", "x": 1}, None, {"city": None, "x": 2}, {"city": "Oslo", "x": 3}]
    formatkit.append(table, pa.table({"id": [1, 2, 3, 4], "place": rows}))
    assert {(file.partition[0], file.record_count) for file in data_files(table)} == {
        ("Rome", 1),
        (None, 2),
        ("Oslo", 1),
    }
    assert formatkit.scan(table).to_arrow().sort_by("id")["place"].to_pylist() == rows


def test_one_column_may_be_partitioned_by_twice(catalog: InMemoryCatalog) -> None:
    partitions = spec((2, BucketTransform(2)), (2, TruncateTransform(1)))
    table = new_table(catalog, ID, NestedField(2, "v", StringType()), partitions=partitions)
    formatkit.append(table, pa.table({"id": [1, 2, 3], "v": ["ab", "ac", "b"]}))
    bucket = BucketTransform(2).transform(StringType())
    assert {(file.partition[0], file.partition[1]) for file in data_files(table)} == {
        (bucket(v), v[:1]) for v in ("ab", "ac", "b")
    }


def test_rows_of_one_partition_keep_their_order(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, partitions=spec((1, BucketTransform(3))))
    formatkit.append(table, pa.table({"id": range(10_000)}))
    for file in data_files(table):
        identifiers: list[Any] = formatkit.read_file(file.file_path).to_arrow()["id"].to_pylist()
        assert identifiers == sorted(identifiers)


NAMES = ["a/b", "a b", "a=b", "a%2Fb", "..", "", "null", None, "Ünï😀", "a\nb", "a:b?c#d", "x" * 3000]


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_any_value_makes_a_path(catalog: InMemoryCatalog, file_format: str) -> None:
    table = new_table(catalog, ID, NestedField(2, "v", StringType()), partitions=spec((2, IdentityTransform())))
    formatkit.append(table, pa.table({"id": range(len(NAMES)), "v": NAMES}), file_format)
    assert len(files_on_disk(table)) == len(NAMES)
    for file in data_files(table):
        path = local_path(file.file_path)
        assert path.exists()
        assert path.parent.parent == local_path(f"{table.location()}/data")
    assert formatkit.scan(table).to_arrow().sort_by("id")["v"].to_pylist() == NAMES
    for name in NAMES:
        assert table_rows(table, where=IsNull("v") if name is None else EqualTo("v", name)) == [
            (NAMES.index(name), name)
        ]


def test_paths_name_the_partition(catalog: InMemoryCatalog) -> None:
    table = new_table(
        catalog,
        NestedField(1, "day", DateType()),
        NestedField(2, "a/b", StringType()),
        partitions=spec((1, MonthTransform()), (2, IdentityTransform())),
    )
    formatkit.append(table, pa.table({"day": [date(2020, 5, 17), date(2020, 5, 18)], "a/b": ["x y", None]}))
    folders = {str(path.parent.relative_to(local_path(f"{table.location()}/data"))) for path in files_on_disk(table)}
    assert folders == {"part_0=2020-05/part_1=x+y", "part_0=2020-05/part_1=null"}


def test_moments_that_python_has_no_dates_for_are_partitioned(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, NestedField(2, "day", DateType()), partitions=spec((2, DayTransform())))
    days = [-(2**31), 2**31 - 1]
    formatkit.append(table, pa.table({"id": [1, 2], "day": pa.array(days, pa.int32()).cast(pa.date32())}))
    assert formatkit.scan(table).to_arrow().sort_by("id")["day"].cast(pa.int32()).to_pylist() == days


def test_other_places_are_asked_for_by_properties(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    table = new_table(
        catalog,
        ID,
        partitions=spec((1, IdentityTransform())),
        properties={"write.data.path": elsewhere.as_uri(), "write.object-storage.enabled": "true"},
    )
    formatkit.append(table, pa.table({"id": [1, 2]}))
    (first, second) = sorted(elsewhere.rglob("*.parquet"))
    assert {path.parent.name for path in (first, second)} == {"part_0=1", "part_0=2"}
    assert all(set(part) <= {"0", "1"} for part in first.relative_to(elsewhere).parts[:4])
    assert table_rows(table) == [(1,), (2,)]


@pytest.mark.parametrize("name", ["nowhere.Provider", "json.Provider", "Provider"])
def test_a_location_provider_that_cannot_be_loaded_is_reported(catalog: InMemoryCatalog, name: str) -> None:
    table = new_table(catalog, ID)
    with pytest.raises(ConfigurationError, match="where data files go"):
        formatkit.append(table, pa.table({"id": [1]}), properties={"write.py-location-provider.impl": name})


def test_pyarrow_reads_the_files_of_a_partition(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, NestedField(2, "v", StringType()), partitions=spec((2, IdentityTransform())))
    formatkit.append(table, pa.table({"id": [1, 2, 3], "v": ["a", "b", "a"]}))
    paths = [str(path) for path in files_on_disk(table)]
    read: Any = ds.dataset(paths).to_table()
    assert sorted(read["id"].to_pylist()) == [1, 2, 3]
    assert {path.parent.name: ds.dataset([path]).count_rows() for path in files_on_disk(table)} == {
        "part_0=a": 2,
        "part_0=b": 1,
    }


def test_new_rows_follow_the_current_spec(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, NestedField(2, "v", StringType()), partitions=spec((2, IdentityTransform())))
    formatkit.append(table, pa.table({"id": [1], "v": ["a"]}))
    with table.update_spec() as update:
        update.remove_field("part_0")
        update.add_field("id", BucketTransform(2), "bucket")
    formatkit.append(table, pa.table({"id": [2], "v": ["b"]}))
    assert sorted(file.spec_id for file in data_files(table)) == [0, 1]
    assert table_rows(table) == [(1, "a"), (2, "b")]
    assert table_rows(table, where="v = 'b'") == [(2, "b")]


@pytest.mark.parametrize(
    "field",
    [
        PartitionField(1, 1000, UnknownTransform("zorder"), "z"),
        PartitionField(9, 1000, IdentityTransform(), "z"),
    ],
    ids=["unknown transform", "dropped column"],
)
def test_a_partition_field_that_cannot_be_computed_is_refused(field: PartitionField) -> None:
    with pytest.raises(UnsupportedError, match="'z'"):
        Partitioner(PartitionSpec(field), Schema(ID))
