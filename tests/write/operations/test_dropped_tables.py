"""A table that is dropped, or a catalog that refuses, ends every operation in an error of formatkit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError, UnauthorizedError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.typedef import Identifier

import formatkit
from formatkit.errors import CatalogError, TableMissingError

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
NEW_ROWS = pa.table({"id": pa.array([3, 4], pa.int64()), "name": ["x", "y"]})

OPERATIONS: dict[str, Callable[[Table], object]] = {
    "append": lambda table: formatkit.append(table, NEW_ROWS),
    "overwrite": lambda table: formatkit.overwrite(table, NEW_ROWS),
    "delete": lambda table: formatkit.delete(table, "id = 1"),
    "upsert": lambda table: formatkit.upsert(table, NEW_ROWS, ["id"]),
    "merge": lambda table: formatkit.merge(table, NEW_ROWS, on="id"),
    "rewrite": lambda table: formatkit.rewrite(table, file_format="avro", all_files=True),
    "clean_orphans": lambda table: formatkit.clean_orphans(table, dry_run=False),
}
READS: dict[str, Callable[[Table], object]] = {
    "scan": lambda table: formatkit.scan(table).to_arrow(),
    "validate": formatkit.validate,
}


class RefusingCatalog(SqlCatalog):
    """Raises what the test says."""

    on_load: Exception | None = None
    on_commit: Exception | None = None

    def load_table(self, identifier: str | Identifier) -> Table:
        if self.on_load is not None:
            raise self.on_load
        return super().load_table(identifier)

    def commit_table(self, table: Table, requirements: object, updates: object) -> CommitTableResponse:
        if self.on_commit is not None:
            raise self.on_commit
        return super().commit_table(table, requirements, updates)  # type: ignore[arg-type]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RefusingCatalog]:
    settings = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/files"}
    with closing(RefusingCatalog("shop", **settings)) as found:
        found.create_namespace("db")
        yield found


@pytest.fixture
def table(catalog: RefusingCatalog) -> Table:
    table = catalog.create_table("db.t", schema=ROWS.schema)
    formatkit.append(table, ROWS)
    return table


def files(tmp_path: Path) -> set[Path]:
    return {path for path in (tmp_path / "files").rglob("*") if path.is_file()}


@pytest.mark.parametrize("namespace", [False, True], ids=["table", "namespace"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_table_that_was_dropped_is_missing(
    catalog: RefusingCatalog, table: Table, tmp_path: Path, operation: str, namespace: bool
) -> None:
    catalog.drop_table("db.t")
    if namespace:
        catalog.drop_namespace("db")
    before = files(tmp_path)
    with pytest.raises(TableMissingError, match=r"has no table db\.t any more") as caught:
        OPERATIONS[operation](table)
    assert caught.value.table == "db.t"
    assert files(tmp_path) == before


@pytest.mark.parametrize("error", [ForbiddenError("403"), UnauthorizedError("401")], ids=repr)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_catalog_that_refuses_is_an_error_of_the_tree(
    catalog: RefusingCatalog, table: Table, tmp_path: Path, operation: str, error: Exception
) -> None:
    catalog.on_load = catalog.on_commit = error
    before = files(tmp_path)
    with pytest.raises(CatalogError, match="refused what was asked") as caught:
        OPERATIONS[operation](table)
    assert caught.value.__cause__ is error
    assert files(tmp_path) == before


@pytest.mark.parametrize("operation", READS)
def test_reads_of_a_loaded_table_ask_no_catalog(catalog: RefusingCatalog, table: Table, operation: str) -> None:
    catalog.on_load = ForbiddenError("403")
    assert READS[operation](table)


def test_a_table_that_is_dropped_while_orphans_are_cleaned_loses_no_more_files(
    catalog: RefusingCatalog, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, before = [], files(tmp_path)

    def load(identifier: str | Identifier) -> Table:
        loads.append(identifier)
        if len(loads) == 2:
            catalog.drop_table("db.t")
        return SqlCatalog.load_table(catalog, identifier)

    monkeypatch.setattr(catalog, "load_table", load)
    with pytest.raises(TableMissingError, match="nothing more is deleted"):
        formatkit.clean_orphans(table, dry_run=False)
    assert files(tmp_path) == before
