"""It is of use: what writers leave behind is found and deleted, in every layout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

import formatkit
from formatkit.write.orphans import clean_orphans
from support.iceberg_tables import local_path
from support.orphans import data_names, files_of, make_old, metadata_names
from support.repository import ROOT

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "a b", StringType()))
SPEC = PartitionSpec(
    PartitionField(1, 1000, IdentityTransform(), "id"), PartitionField(2, 1001, IdentityTransform(), "a b")
)
ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "a b": ["x", "y/z", "ä ö", None, "50%", "a=b"]})
LAYOUTS = {
    "plain": (False, {}),
    "partitioned": (True, {}),
    "object store": (False, {"write.object-storage.enabled": "true"}),
    "object store, partitioned": (True, {"write.object-storage.enabled": "true"}),
    "object store, no partition paths": (
        True,
        {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"},
    ),
    "other paths": (True, {"write.data.path": "{}/elsewhere/data", "write.metadata.path": "{}/elsewhere/metadata"}),
}


@pytest.fixture(params=["pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"])
def catalog(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Catalog]:
    warehouse = (tmp_path / "warehouse").as_uri()
    made = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=warehouse, **{"py-io-impl": request.param})
    made.create_namespace("db")
    yield made
    made.close()


def new_table(catalog: Catalog, tmp_path: Path, layout: str) -> Table:
    partitioned, properties = LAYOUTS[layout]
    table = catalog.create_table(
        "db.t",
        SCHEMA,
        partition_spec=SPEC if partitioned else PartitionSpec(),
        properties={key: value.format(tmp_path.as_uri()) for key, value in properties.items()},
    )
    formatkit.append(table, ROWS)
    table.append(ROWS)
    formatkit.delete(table, "id = 3")
    return table


def plant_by_name(table: Table) -> list[Path]:
    """Files of each kind of name, in the folders where the table's data and metadata are."""
    locations = table.location_provider()
    folders = {local_path(task.file.file_path).parent for task in table.scan().plan_files()}
    data_folder, metadata_folder = local_path(locations.data_path), local_path(locations.metadata_path)
    made = [folder / name for folder in (*folders, data_folder) for name in data_names()]
    made += [metadata_folder / name for name in metadata_names()]
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left behind")
    return made


@pytest.mark.parametrize("layout", LAYOUTS)
def test_orphans_of_all_writers_are_deleted_and_no_row_is_lost(catalog: Catalog, tmp_path: Path, layout: str) -> None:
    table = new_table(catalog, tmp_path, layout)
    live = files_of(tmp_path)
    plant_by_name(table)
    # Real writers that do everything but commit.
    list(_dataframe_to_data_files(table.metadata, table.scan().to_arrow(), table.io))
    table.transaction().append(ROWS)
    planted = files_of(tmp_path) - live
    assert len(planted) > 40
    make_old(tmp_path)
    report = clean_orphans(table, dry_run=False, journal=tmp_path / "journal")
    assert (report.blocked, report.failures, dict(report.kept)) == ((), {}, {})
    assert files_of(tmp_path) - {tmp_path / "journal"} == live
    assert report.deleted == len(planted)
    rows = formatkit.scan(table).to_arrow().sort_by("id")
    assert rows["id"].to_pylist() == [0, 0, 1, 1, 2, 2, 4, 4, 5, 5]


KILLED = """
import os, signal, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
import formatkit

catalog = SqlCatalog("c", uri=sys.argv[1], warehouse=sys.argv[2])
rows = pa.table({"id": pa.array(range(6), pa.int64()), "a b": ["x", "y/z", "ä ö", None, "50%", "a=b"]})
operations = [
    lambda: formatkit.append(catalog.load_table("db.t"), rows),
    lambda: formatkit.delete(catalog.load_table("db.t"), "id = 5"),
    lambda: formatkit.rewrite(catalog.load_table("db.t"), all_files=True),
    lambda: catalog.load_table("db.t").append(rows),
]

def commit(*_):
    if not operations:
        os.kill(os.getpid(), signal.SIGKILL)
    operations.pop()()

type(catalog).commit_table = commit
commit()
"""


@pytest.mark.parametrize("catalog", ["pyiceberg.io.pyarrow.PyArrowFileIO"], indirect=True)
@pytest.mark.parametrize("layout", ["partitioned"])
def test_all_that_a_killed_process_leaves_is_deleted(catalog: Catalog, tmp_path: Path, layout: str) -> None:
    """Four operations of one process, each of which has written everything and is about to commit."""
    new_table(catalog, tmp_path, layout)
    live = files_of(tmp_path)
    command = [sys.executable, "-c", KILLED, f"sqlite:///{tmp_path}/c.db", (tmp_path / "warehouse").as_uri()]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, check=False)
    assert killed.returncode == -signal.SIGKILL
    make_old(tmp_path)
    planted = files_of(tmp_path) - live
    assert len([path for path in planted if path.name.startswith("snap-")]) == 4
    report = clean_orphans(catalog.load_table("db.t"), dry_run=False, journal=tmp_path / "journal")
    assert (report.deleted, dict(report.kept)) == (len(planted), {})
    assert files_of(tmp_path) - {tmp_path / "journal"} == live


@pytest.mark.parametrize("catalog", ["pyiceberg.io.pyarrow.PyArrowFileIO"], indirect=True)
def test_metadata_files_that_the_log_has_dropped_are_deleted(catalog: Catalog, tmp_path: Path) -> None:
    table = new_table(catalog, tmp_path, "plain")
    with table.transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "2"})
    for number in range(8):
        with table.transaction() as transaction:
            transaction.set_properties({"n": str(number)})
    make_old(tmp_path)
    in_log = {Path(entry.metadata_file).name for entry in table.metadata.metadata_log}
    everything = {path.name for path in files_of(tmp_path) if path.name.endswith(".metadata.json")}
    dropped = everything - in_log - {Path(table.metadata_location).name}
    assert len(dropped) > 5
    report = clean_orphans(table, dry_run=False)
    assert {Path(file.location).name for file in report.orphans} == dropped


@pytest.mark.parametrize("catalog", ["pyiceberg.io.pyarrow.PyArrowFileIO"], indirect=True)
def test_a_failed_commits_metadata_needs_the_callers_word(catalog: Catalog, tmp_path: Path) -> None:
    table = new_table(catalog, tmp_path, "plain")
    live = files_of(tmp_path)
    stale = catalog.load_table("db.t")
    reverted = table.metadata_location
    stale.append(ROWS)
    catalog.drop_table("db.t")
    table = catalog.register_table("db.t", reverted)
    make_old(tmp_path)
    report = clean_orphans(table, dry_run=False)
    assert report.orphans == ()
    assert all("refers to a file of its name" in reason for reason in report.kept.values())
    report = clean_orphans(table, dry_run=False, location_is_exclusive=True, journal=tmp_path / "journal")
    assert (report.deleted, dict(report.kept)) == (4, {})
    assert files_of(tmp_path) - {tmp_path / "journal"} == live
