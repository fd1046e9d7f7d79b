"""Files of a sorted table are sorted, and say so."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

import formatkit
from formatkit.errors import UnsupportedError
from formatkit.write import write_data_files
from support.written_tables import ALL_FORMATS, data_files, new_table, spec

ID = NestedField(1, "id", LongType(), required=True)
V = NestedField(2, "v", DoubleType())
ASC, DESC = SortDirection.ASC, SortDirection.DESC
FIRST, LAST = NullOrder.NULLS_FIRST, NullOrder.NULLS_LAST


def order(*fields: tuple[int, SortDirection, NullOrder], transform: Transform[Any, Any] | None = None) -> SortOrder:
    made = (
        SortField(source, transform or IdentityTransform(), direction, nulls) for source, direction, nulls in fields
    )
    return SortOrder(*made, order_id=1)


def stored(location: str, column: str) -> list[Any]:
    return formatkit.read_file(location).to_arrow()[column].to_pylist()


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_the_rows_of_each_file_are_sorted(catalog: InMemoryCatalog, file_format: str) -> None:
    table = new_table(
        catalog, ID, V, partitions=spec((1, BucketTransform(3))), sort_order=order((2, ASC, LAST), (1, DESC, LAST))
    )
    values = [float((i * 7919) % 101) if i % 10 else None for i in range(5_000)]
    formatkit.append(table, pa.table({"id": range(5_000), "v": values}), file_format)
    files = write_data_files(table, pa.table({"id": range(5_000), "v": values}), file_format=file_format)
    assert len(files) == 3
    for file in files:
        assert file.sort_order_id == 1
        rows = list(zip(stored(file.file_path, "v"), stored(file.file_path, "id"), strict=True))
        assert rows == sorted(rows, key=lambda row: (row[0] is None, row[0] or 0, -row[1]))
    assert sorted(formatkit.scan(table).to_arrow()["id"].to_pylist()) == list(range(5_000))  # type: ignore[type-var]


SPECIAL = [1.0, None, math.nan, -0.0, 0.0, -math.inf, math.inf, -1.0, -math.nan]
ORDERS = {
    (ASC, FIRST): [None, -math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan, math.nan],
    (ASC, LAST): [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan, math.nan, None],
    (DESC, FIRST): [None, math.nan, math.nan, math.inf, 1.0, 0.0, -0.0, -1.0, -math.inf],
    (DESC, LAST): [math.nan, math.nan, math.inf, 1.0, 0.0, -0.0, -1.0, -math.inf, None],
}


@pytest.mark.parametrize(("direction", "nulls"), ORDERS, ids=str)
def test_floats_are_in_the_order_of_iceberg(
    catalog: InMemoryCatalog, direction: SortDirection, nulls: NullOrder
) -> None:
    table = new_table(catalog, V, sort_order=order((V.field_id, direction, nulls)))
    (file,) = write_data_files(table, pa.table({"v": SPECIAL}))
    assert repr(stored(file.file_path, "v")) == repr(ORDERS[direction, nulls])


def test_rows_are_sorted_by_what_the_transform_gives(catalog: InMemoryCatalog) -> None:
    name = NestedField(1, "v", StringType())
    table = new_table(catalog, name, sort_order=order((1, ASC, FIRST), transform=TruncateTransform(1)))
    (file,) = write_data_files(table, pa.table({"v": ["bz", "ba", "az", "aa", None]}))
    assert stored(file.file_path, "v") == [None, "az", "aa", "bz", "ba"]


def test_the_order_can_be_left_alone(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, sort_order=order((1, ASC, FIRST)))
    (file,) = write_data_files(table, pa.table({"id": [3, 1, 2]}), sort_order=UNSORTED_SORT_ORDER)
    assert (stored(file.file_path, "id"), file.sort_order_id) == ([3, 1, 2], None)
    (file,) = write_data_files(table, pa.table({"id": [3, 1, 2]}), sort_order=order((1, DESC, FIRST)))
    assert (stored(file.file_path, "id"), file.sort_order_id) == ([3, 2, 1], None)


def test_columns_of_the_order_have_bounds(catalog: InMemoryCatalog) -> None:
    table = new_table(
        catalog,
        ID,
        V,
        sort_order=order((1, ASC, FIRST)),
        properties={"write.metadata.metrics.default": "none"},
    )
    formatkit.append(table, pa.table({"id": [3, 1, 2], "v": [1.0, 2.0, 3.0]}))
    (file,) = data_files(table)
    assert dict(file.lower_bounds) == {1: to_bytes(LongType(), 1)}
    assert file.sort_order_id == 1


def test_metrics_follow_the_properties_of_each_column(catalog: InMemoryCatalog) -> None:
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.name": "truncate(2)",
        "write.metadata.metrics.column.v": "none",
    }
    table = new_table(catalog, ID, V, NestedField(3, "name", StringType()), properties=properties)
    formatkit.append(table, pa.table({"id": [1], "v": [1.0], "name": ["abc"]}))
    (file,) = data_files(table)
    assert dict(file.value_counts) == {1: 1, 3: 1}
    assert (dict(file.lower_bounds), dict(file.upper_bounds)) == ({3: b"ab"}, {3: b"ac"})


def test_an_order_by_a_column_that_is_gone_is_no_reason_to_refuse_rows(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, V, sort_order=order((2, ASC, FIRST)))
    schema = Schema(ID)
    (file,) = write_data_files(table, pa.table({"id": [3, 1, 2]}), schema=schema)
    assert (stored(file.file_path, "id"), file.sort_order_id) == ([3, 1, 2], None)
    with pytest.raises(UnsupportedError, match="id 2"):
        write_data_files(table, pa.table({"id": [1]}), schema=schema, sort_order=order((2, ASC, FIRST)))


def test_moments_are_sorted_by_day(catalog: InMemoryCatalog) -> None:
    table = new_table(
        catalog, NestedField(1, "at", TimestampType()), sort_order=order((1, DESC, LAST), transform=DayTransform())
    )
    moments = pa.array([5, 86_400_000_000, 3, None], pa.timestamp("us"))
    (file,) = write_data_files(table, pa.table({"at": moments}))
    read = formatkit.read_file(file.file_path).to_arrow()["at"].cast(pa.int64()).to_pylist()
    assert read == [86_400_000_000, 5, 3, None]
