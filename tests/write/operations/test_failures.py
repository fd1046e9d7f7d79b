"""An operation that fails at any point leaves no file, and the table as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.tck.rows import to_arrow
from support.commits import metadata_files, new_sql_catalog, new_table
from support.failing_io import FAILING_IO, FailingFileIO, failure_at
from support.modelled_table import shown
from support.operated_tables import SCHEMA, VALUE, some_rows
from support.written_tables import files_on_disk

CHANGED = to_arrow(SCHEMA, [{**row, VALUE: 1.0} for row in some_rows(4, 16)])
OPERATIONS: dict[str, Callable[[Table], object]] = {
    "merge-on-read": lambda table: formatkit.delete(table, "value = 0.5"),
    "copy-on-write": lambda table: formatkit.delete(table, "value = 0.5", "copy-on-write"),
    "overwrite": lambda table: formatkit.overwrite(table, to_arrow(SCHEMA, some_rows(20, 25)), "value = 0.5"),
    "upsert": lambda table: formatkit.upsert(table, CHANGED),
    "rewrite": lambda table: formatkit.rewrite(table, "avro"),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_storage_that_fails_at_any_call_leaves_nothing_behind(tmp_path: Path, operation: str, version: int) -> None:
    number, more = 0, True
    while more:
        (tmp_path / str(number)).mkdir()
        with closing(new_sql_catalog(tmp_path / str(number), **FAILING_IO)) as catalog:
            number, more = _fail_until_it_succeeds(catalog, operation, version, number)
    assert number > 6


def _fail_until_it_succeeds(catalog: SqlCatalog, operation: str, version: int, number: int) -> tuple[int, bool]:
    """The last call that failed, and whether the operation went on after it, as if a file was opened in vain ahead."""
    table = new_table(catalog, version, schema=SCHEMA)
    formatkit.append(table, to_arrow(SCHEMA, some_rows(0, 12)))
    formatkit.append(table, to_arrow(SCHEMA, some_rows(12, 20)))
    formatkit.delete(table, "id in (2, 5, 13)")
    rows, data, metadata = shown(table), files_on_disk(table), metadata_files(table)
    snapshot = table.current_snapshot()
    went_on = False
    while catalog.load_table("db.t").current_snapshot() == snapshot:
        assert files_on_disk(table) == data
        assert metadata_files(table) == metadata
        assert table.current_snapshot() == snapshot
        number += 1
        with failure_at(number), suppress(OSError):
            OPERATIONS[operation](table)
            went_on = FailingFileIO.calls >= number
    if operation == "rewrite":
        assert shown(table) == rows
    assert table.current_snapshot() == catalog.load_table("db.t").current_snapshot()
    return number, went_on
