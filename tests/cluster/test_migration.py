"""A table with a past goes from format to format by `spark-submit`; `make migration` does it with 200 files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import formatkit
from support.migrations import Migration

FILES = int(os.environ.get("MIGRATION_FILES", "12"))
FORMATS = os.environ.get("MIGRATION_FORMATS", "orc").split(",")


def test_rows_are_the_same_in_every_format(master: str, tmp_path: Path) -> None:
    migration = Migration(tmp_path, master, FILES)
    for file_format in FORMATS:
        migration.grow()
        before, files = migration.rows(), migration.data_files
        deletes = sum(bool(task.deletes) for task in formatkit.scan(migration.table).tasks)
        assert (files, deletes > 0) == (FILES, True)
        formats = migration.formats
        began = time.monotonic()
        done = migration.migrate(file_format)
        assert migration.formats == {file_format}
        assert migration.rows() == before
        assert done["rewritten_files"] == files
        assert len(done["snapshot_ids"]) == 2
        assert not any(task.deletes for task in formatkit.scan(migration.table).tasks)
        assert migration.table.properties["write.format.default"] == file_format
        schemas, old = len(migration.table.metadata.schemas), " and ".join(sorted(formats))
        print(
            f"\n{old} to {file_format}: {files} files of {schemas} schemas, {deletes} with deletes, to "
            f"{done['added_files']} files; {len(before)} rows equal; {time.monotonic() - began:.0f} s"
        )
    assert formatkit.validate(migration.table).findings == ()
