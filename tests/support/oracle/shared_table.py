"""A table that formatkit and Java write in turns, and that both must read alike after each turn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record

import formatkit
from formatkit.tck.naive import Row
from formatkit.tck.rows import to_arrow
from formatkit.write.commit import Change, commit, enable_version3
from formatkit.write.deletes import write_equality_deletes
from support.iceberg_tables import new_catalog
from support.oracle.comparing import read_here, same_rows
from support.oracle.java_table import JavaTable, read_by_java
from support.oracle.rust_reading import read_by_rust
from support.oracle.servant import Servant
from support.oracle.specs import spec_of

__all__ = ["SharedTable"]

_NAME = "db.t"


class SharedTable:
    """One table of an embedded catalog; `table` is how pyiceberg and formatkit see it."""

    def __init__(
        self,
        java: Servant,
        folder: Path,
        schema: Schema,
        parts: Sequence[tuple[int, str]] = (),
        *,
        version: int = 2,
        rust: Servant | None = None,
    ) -> None:
        enable_version3()
        self._java = java
        self._rust = rust
        self._catalog = new_catalog(folder)
        self.table: Table = self._catalog.create_table(
            _NAME, schema, partition_spec=spec_of(parts), properties={"format-version": str(version)}
        )

    @property
    def schema(self) -> Schema:
        return self.table.schema()

    def arrow(self, rows: Sequence[Row]) -> Any:
        return to_arrow(self.schema, rows)

    def by_java(self) -> JavaTable:
        """The table as Java goes on with it; `accept` makes what Java committed the current state."""
        return JavaTable(self._java, self.table.metadata_location, self.schema)

    def accept(self, java_table: JavaTable) -> None:
        self._catalog.drop_table(_NAME)
        self.table = self._catalog.register_table(_NAME, java_table.metadata)

    def positions(self, where: str) -> list[tuple[str, int]]:
        """Where the rows that match are stored."""
        scan = formatkit.scan(self.table, where, ("_file", "_pos")).to_arrow()
        return [(row["_file"], row["_pos"]) for row in scan.to_pylist()]

    def delete_equal(
        self, schema: Schema, rows: Sequence[Row], file_format: str = "parquet", partition: Record | None = None
    ) -> None:
        """Commit an equality delete of formatkit's writer, for the rows of a partition or of an unpartitioned table."""
        location = f"{self.table.location()}/data/{uuid4()}-equal.{file_format}"
        ids = [field.field_id for field in schema.fields]
        file = write_equality_deletes(
            location,
            to_arrow(schema, rows),
            schema,
            ids,
            file_format=file_format,
            io=self.table.io,
            partition=partition,
            spec_id=self.table.spec().spec_id,
        )
        assert file is not None
        self.commit_deletes(file)

    def commit_deletes(self, *files: DataFile) -> None:
        """Commit delete files that somebody has written."""
        snapshot = self.table.current_snapshot()
        change = Change(
            operation=Operation.DELETE,
            added_deletes=files,
            base_snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        )
        commit(self.table, change)

    def check(self, expected: Collection[Row] | None = None, *, rust: bool = True) -> list[Row]:
        """All read the same rows: the ones given, if any. Returns them."""
        ours = read_here(self.table)
        if expected is not None:
            same_rows(ours, expected, "formatkit")
        location = self.table.metadata_location
        same_rows(read_by_java(self._java, location, self.schema), ours, "Java")
        if rust and self._rust is not None and self._rust_can_read():
            same_rows(read_by_rust(self._rust, location, self.schema), ours, "iceberg-rust")
        return ours

    def _rust_can_read(self) -> bool:
        """It knows data and position deletes in Parquet; its equality deletes take nulls along."""
        snapshot = self.table.current_snapshot()
        return snapshot is not None and all(
            str(entry.data_file.file_format).upper().endswith("PARQUET")
            and entry.data_file.content is not DataFileContent.EQUALITY_DELETES
            for manifest in snapshot.manifests(self.table.io)
            for entry in manifest.fetch_manifest_entry(self.table.io)
        )
