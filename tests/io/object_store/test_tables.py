"""Tables in an object store hold what was written, in every format and through every `FileIO`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

import formatkit
from formatkit.write.operations import Mode
from support.filters import GreaterThanOrEqual, LessThan
from support.modelled_table import ModelledTable, new_table
from support.object_store import BUCKET, SlowStore
from support.operated_tables import BY_PART, PART, SCHEMA, some_rows
from support.written_tables import ALL_FORMATS


def table_of(catalog: Catalog, tmp_path: Path, version: int = 2) -> ModelledTable:
    return ModelledTable(new_table(tmp_path, SCHEMA, version=version, catalog=catalog))


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_what_was_appended_is_read_back(catalog: Catalog, tmp_path: Path, file_format: str) -> None:
    model = table_of(catalog, tmp_path)
    model.append(some_rows(0, 300), file_format)
    model.append(some_rows(300, 350), file_format)
    model.check_rows(GreaterThanOrEqual("id", 290))
    assert [field.name for field in formatkit.scan(model.table, select="part").schema.fields] == ["part"]
    assert all(task.location.startswith(f"s3://{BUCKET}/") for task in formatkit.scan(model.table).tasks)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_stay_away(catalog: Catalog, tmp_path: Path, version: int, mode: Mode) -> None:
    model = table_of(catalog, tmp_path, version)
    model.append(some_rows(0, 200))
    model.delete(LessThan("id", 50), mode)
    model.delete(GreaterThanOrEqual("id", 190), mode)
    model.check(LessThan("id", 60))


def test_partitions_and_rewrites_work(store: SlowStore, catalog: Catalog, tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, version=3, spec=BY_PART, catalog=catalog)
    model = ModelledTable(table)
    for start in (0, 40, 80):
        model.append(some_rows(start, start + 40))
    model.delete(LessThan("id", 10), "merge-on-read")
    model.rewrite()
    model.check(GreaterThanOrEqual("id", 30))
    store.seen()
    partition = formatkit.scan(model.table, where="part = 'a'").to_arrow()
    assert partition.num_rows == sum(row[PART] == "a" for row in model.rows)
    read = {request.path for request in store.seen() if request.path.endswith(".parquet")}
    assert all("part_0=a" in path or "part_0%3Da" in path for path in read)
