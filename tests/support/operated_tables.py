"""Tables for tests of the operations: rows of three partitions in several files, with a model beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType

from formatkit.write.commit import Change, commit, enable_version3
from formatkit.write.deletes import write_equality_deletes
from support.filters import In
from support.iceberg_tables import local_path
from support.modelled_table import ModelledTable, Row, new_table
from support.written_tables import data_files, spec

__all__ = [
    "BY_BUCKET",
    "BY_PART",
    "ID",
    "LIST",
    "PART",
    "SCHEMA",
    "VALUE",
    "by_content",
    "delete_by_equality",
    "filled_table",
    "some_rows",
    "upgrade",
]

ID, PART, VALUE, LIST = 1, 2, 3, 4
SCHEMA = Schema(
    NestedField(ID, "id", LongType(), required=True),
    NestedField(PART, "part", StringType()),
    NestedField(VALUE, "value", DoubleType()),
    NestedField(LIST, "list", ListType(5, LongType(), element_required=False)),
    identifier_field_ids=[ID],
)
BY_PART = spec((PART, IdentityTransform()))
BY_BUCKET = spec((ID, BucketTransform(3)))


def some_rows(start: int, stop: int) -> list[Row]:
    """Rows with these ids; parts and values come round, null and NaN among them."""
    parts = ["a", "b", None]
    values = [0.5, -0.0, float("nan"), None, 7.0]
    return [
        {ID: i, PART: parts[i % 3], VALUE: values[i % 5], LIST: None if i % 4 == 0 else [i, None][: i % 4]}
        for i in range(start, stop)
    ]


def filled_table(
    directory: Path,
    version: int = 2,
    *,
    partitions: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    file_format: str | None = None,
    **properties: Any,
) -> ModelledTable:
    """A table of 20 rows, appended in two pieces."""
    model = ModelledTable(new_table(directory, SCHEMA, version=version, spec=partitions, **properties))
    model.append(some_rows(0, 12), file_format)
    model.append(some_rows(12, 20), file_format)
    return model


def by_content(table: Table) -> dict[DataFileContent, list[DataFile]]:
    """The live files of a table, as pyiceberg reads its manifests."""
    found: dict[DataFileContent, list[DataFile]] = {content: [] for content in DataFileContent}
    for file in data_files(table):
        found[file.content].append(file)
    return found


def delete_by_equality(model: ModelledTable, ids: list[int]) -> None:
    """Delete rows as streaming engines do: by a file of ids that holds for all partitions."""
    table = model.table
    with table.update_spec() as update:
        for field in table.spec().fields:
            update.remove_field(field.name)
    location = f"{table.location()}/data/{uuid4()}-equality.parquet"
    name = table.schema().find_field(ID).name
    rows = pa.table({name: pa.array(ids, pa.int64())})
    file = write_equality_deletes(location, rows, table.schema(), [ID], spec_id=table.spec().spec_id)
    assert file is not None
    base = table.current_snapshot()
    commit(
        table,
        Change(operation=Operation.DELETE, added_deletes=(file,), base_snapshot_id=base.snapshot_id if base else None),
    )
    model.removed(In(name, ids))


def upgrade(model: ModelledTable) -> None:
    """Make the table one of version 3, as Java does; pyiceberg cannot."""
    enable_version3()
    table = model.table
    path = local_path(table.metadata_location)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format-version": 3, "next-row-id": 0}))
    table.refresh()
