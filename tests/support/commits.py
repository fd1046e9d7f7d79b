"""Tables and files for tests of commits: files that nobody reads are empty, and other readers say what was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from formatkit.write.commit import Change, commit, enable_version3
from support.iceberg_tables import local_path

__all__ = [
    "SCHEMA",
    "append",
    "change",
    "data_file",
    "deletion_vector",
    "equality_deletes",
    "head_id",
    "live_files",
    "metadata_files",
    "metadata_json",
    "new_sql_catalog",
    "new_table",
    "position_deletes",
    "raw_entries",
    "raw_header",
    "raw_list",
    "upgrade_to_version_3",
]

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
)
# Waits of a tenth of a second would be most of the time that these tests take.
QUICK_RETRIES = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"}
_PATH_ID = 2147483546


def new_sql_catalog(directory: Path, **properties: str) -> SqlCatalog:
    """A catalog in a file of SQLite; catalogs of the same directory, also of other processes, share their tables."""
    directory.mkdir(parents=True, exist_ok=True)
    return SqlCatalog(
        "test", uri=f"sqlite:///{directory}/catalog.db", warehouse=(directory / "warehouse").as_uri(), **properties
    )


def new_table(
    catalog: SqlCatalog,
    version: int = 2,
    *,
    name: str = "db.t",
    schema: Schema = SCHEMA,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    properties: Mapping[str, str] = {},
) -> Table:
    enable_version3()
    catalog.create_namespace_if_not_exists("db")
    return catalog.create_table(
        name,
        schema,
        partition_spec=spec,
        properties={"format-version": str(version), **QUICK_RETRIES, **properties},
    )


def data_file(
    table: Table,
    name: str,
    rows: int = 1,
    *,
    partition: tuple[Any, ...] = (),
    spec_id: int | None = None,
    file_format: Any = FileFormat.PARQUET,
    content: DataFileContent = DataFileContent.DATA,
    **facts: Any,
) -> DataFile:
    """What a writer says about a file that nobody will read; the file is there, and empty."""
    path = local_path(f"{table.location()}/data/{name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    file = DataFile.from_args(
        _table_format_version=3,
        content=content,
        file_path=f"{table.location()}/data/{name}",
        file_format=file_format,
        partition=Record(*partition),
        record_count=rows,
        file_size_in_bytes=100 * rows,
        **facts,
    )
    file.spec_id = table.spec().spec_id if spec_id is None else spec_id
    return file


def position_deletes(table: Table, name: str, *targets: DataFile, rows: int = 1, **facts: Any) -> DataFile:
    """Position deletes for data files; one target is named by the entry, several by the bounds of paths."""
    paths = sorted(target.file_path for target in targets)
    if len(paths) == 1:
        facts["referenced_data_file"] = paths[0]
    return data_file(
        table,
        name,
        rows,
        content=DataFileContent.POSITION_DELETES,
        partition=tuple(targets[0].partition[i] for i in range(len(targets[0].partition))),
        lower_bounds={_PATH_ID: paths[0].encode()},
        upper_bounds={_PATH_ID: paths[-1].encode()},
        **facts,
    )


def deletion_vector(table: Table, name: str, target: DataFile, *, offset: int = 4, rows: int = 1) -> DataFile:
    return position_deletes(
        table, name, target, rows=rows, file_format=FileFormat.PUFFIN, content_offset=offset, content_size_in_bytes=40
    )


def equality_deletes(table: Table, name: str, rows: int = 1, **facts: Any) -> DataFile:
    return data_file(table, name, rows, content=DataFileContent.EQUALITY_DELETES, equality_ids=[1], **facts)


def append(table: Table, *files: DataFile, **options: Any) -> Snapshot:
    return commit(table, Change(operation=Operation.APPEND, added=files), **options)


def change(table: Table, operation: Operation, **parts: Any) -> Snapshot:
    """Commit a change that is based on what the table object shows."""
    return commit(table, Change(operation=operation, base_snapshot_id=head_id(table), **parts))


def head_id(table: Table) -> int | None:
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot else None


def live_files(table: Table, content: ManifestContent = ManifestContent.DATA, branch: str = "main") -> list[str]:
    """The names of the files of a table, as pyiceberg reads its manifests."""
    snapshot = table.snapshot_by_name(branch)
    manifests = snapshot.manifests(table.io) if snapshot else []
    return sorted(
        entry.data_file.file_path.rpartition("/")[2]
        for manifest in manifests
        if manifest.content == content
        for entry in manifest.fetch_manifest_entry(table.io)
    )


def raw_list(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The lines of a manifest list, as fastavro reads them."""
    return _records(snapshot.manifest_list)


def raw_entries(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The entries of all manifests of a snapshot in their order, as fastavro reads them."""
    return [record for line in raw_list(snapshot) for record in _records(line["manifest_path"])]


def raw_header(location: str) -> dict[str, Any]:
    """The metadata of an Avro file."""
    with local_path(location).open("rb") as stream:
        return dict(fastavro.reader(stream).metadata)


def _records(location: str) -> list[dict[str, Any]]:
    with local_path(location).open("rb") as stream:
        return [record for record in fastavro.reader(stream) if isinstance(record, dict)]


def metadata_json(table: Table) -> dict[str, Any]:
    """The metadata file, undecoded."""
    return dict(json.loads(local_path(table.metadata_location).read_text()))


def upgrade_to_version_3(table: Table) -> None:
    """Upgrade a table as Java does; pyiceberg cannot."""
    document = {**metadata_json(table), "format-version": 3, "next-row-id": 0}
    local_path(table.metadata_location).write_text(json.dumps(document))
    table.refresh()


def metadata_files(table: Table) -> set[str]:
    """The names of the manifests and manifest lists in the folder of a table."""
    return {path.name for path in local_path(f"{table.location()}/metadata").glob("*.avro")}
