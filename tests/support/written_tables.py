"""Tables for tests of writing: made in an embedded catalog, looked at through pyiceberg's own eyes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.transforms import Transform
from pyiceberg.types import NestedField

import formatkit
from support.iceberg_tables import local_path

__all__ = ["ALL_FORMATS", "data_files", "files_on_disk", "new_table", "spec", "table_rows"]

ALL_FORMATS = ("parquet", "orc", "avro", "arrow", "vortex", "lance")


def spec(*fields: tuple[int, Transform[Any, Any]]) -> PartitionSpec:
    """A partition spec of source ids and transforms."""
    return PartitionSpec(
        *(
            PartitionField(source, 1000 + position, transform, f"part_{position}")
            for position, (source, transform) in enumerate(fields)
        )
    )


def new_table(
    catalog: Catalog,
    *fields: NestedField,
    partitions: PartitionSpec | None = None,
    sort_order: SortOrder = UNSORTED_SORT_ORDER,
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> Table:
    return catalog.create_table(
        "db.written",
        Schema(*fields),
        location=location,
        partition_spec=partitions or PartitionSpec(),
        sort_order=sort_order,
        properties=dict(properties or {}),
    )


def data_files(table: Table) -> list[DataFile]:
    """What the manifests of the current snapshot say of its files, as pyiceberg reads them."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]


def files_on_disk(table: Table) -> list[Path]:
    """Everything below the table's folder of data, left-overs with temporary names included."""
    return sorted(path for path in local_path(f"{table.location()}/data").rglob("*") if path.is_file())


def table_rows(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    """All rows as formatkit reads them, in an order that does not depend on files."""
    read: pa.Table = formatkit.scan(table, **options).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in read.columns), strict=True), key=repr)
