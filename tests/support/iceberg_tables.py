"""Real tables in an embedded catalog (SQLite, in memory), and data files that were written by somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

__all__ = [
    "append_data_files",
    "append_delete_files",
    "closed_at_last",
    "columns",
    "data_file",
    "local_path",
    "new_catalog",
    "remove_data_files",
    "with_ids",
    "write_rows",
]

C = TypeVar("C", bound=SqlCatalog)


def columns(**types: Any) -> pa.Schema:
    """An Arrow schema, the short way."""
    return pa.schema(list(types.items()))


def new_catalog(directory: Path) -> InMemoryCatalog:
    """An empty catalog with the namespace ``db``."""
    directory.mkdir(parents=True, exist_ok=True)
    # Whoever drops the last table may do it in any thread.
    uri = "sqlite:///:memory:?check_same_thread=false"
    catalog = closed_at_last(InMemoryCatalog("test", uri=uri, warehouse=directory.as_uri()))
    catalog.create_namespace("db")
    return catalog


def closed_at_last(catalog: C) -> C:
    """The catalog, whose connections are closed once neither a test nor a table refers to it any more."""
    finalize(catalog, catalog.engine.dispose)
    return catalog


def write_rows(table: Table, name: str, data: pa.Table, **options: Any) -> str:
    """A Parquet file in the table's folder that the table does not know yet; returns its location."""
    location = f"{table.location()}/data/{name}"
    path = local_path(location)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, path, **options)
    return location


def with_ids(table: Table, data: pa.Table) -> pa.Table:
    """The same rows with the table's field ids and types."""
    return data.cast(schema_to_pyarrow(table.schema().select(*data.column_names)))


def data_file(
    table: Table,
    location: str,
    rows: int,
    *,
    partition: Record | None = None,
    content: DataFileContent = DataFileContent.DATA,
    file_format: Any = FileFormat.PARQUET,
    **facts: Any,
) -> DataFile:
    """What a manifest says about a file."""
    path = local_path(location)
    file = DataFile.from_args(
        content=content,
        file_path=location,
        file_format=file_format,
        partition=partition or Record(),
        record_count=rows,
        file_size_in_bytes=path.stat().st_size if path.exists() else 1,
        **facts,
    )
    file.spec_id = table.spec().spec_id
    return file


def append_data_files(table: Table, *files: DataFile) -> Table:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(file)
    return table.refresh()


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _AppendDeletes(_FastAppendFiles):
    """pyiceberg writes no delete manifests by itself."""

    deletes: tuple[DataFile, ...] = ()

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        writer = _DeleteManifestWriter(
            metadata.spec(), metadata.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )
        with writer:
            for file in self.deletes:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=file
                    )
                )
        return [*super()._manifests(), writer.to_manifest_file()]


def append_delete_files(table: Table, *files: DataFile) -> Table:
    with table.transaction() as transaction:
        append = _AppendDeletes(operation=Operation.OVERWRITE, transaction=transaction, io=table.io)
        append.deletes = files
        append.commit()
    return table.refresh()


def local_path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def remove_data_files(table: Table) -> None:
    """Whoever still opens a data file after this fails."""
    for path in local_path(f"{table.location()}/data").rglob("*.parquet"):
        path.unlink()
