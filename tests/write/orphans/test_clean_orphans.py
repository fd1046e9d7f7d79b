from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable, Table

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.write.orphans import OrphanReport, clean_orphans
from formatkit.write.orphans.listing import list_files
from support.iceberg_tables import local_path, new_catalog

ROWS = pa.table({"id": [1, 2, 3]})
AT_ONCE = timedelta(0)


@pytest.fixture
def catalog(tmp_path: Path) -> InMemoryCatalog:
    return new_catalog(tmp_path)


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    table.delete("id = 2")
    return table


def add_file(table: Table, name: str) -> str:
    location = f"{table.location()}/{name}"
    path = local_path(location)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left behind")
    return location


def found(report: OrphanReport) -> list[str]:
    return [file.location for file in report.orphans]


def test_a_table_without_accidents_has_no_orphans(table: Table) -> None:
    report = clean_orphans(table, older_than=AT_ONCE)
    assert report.orphans == ()
    assert report.searched == sum(path.is_file() for path in local_path(table.location()).rglob("*"))


@pytest.mark.parametrize("name", ["data/x.parquet", "data/a=1/.0f.partial", "metadata/x-m0.avro", "elsewhere/deep/x"])
def test_a_file_that_nothing_refers_to_is_found_and_kept_in_a_dry_run(table: Table, name: str) -> None:
    location = add_file(table, name)
    report = clean_orphans(table, older_than=AT_ONCE)
    assert found(report) == [location]
    assert report.size_bytes == len(b"left behind")
    assert report.deleted == 0
    assert local_path(location).exists()


def test_orphans_are_deleted_if_asked_to_and_nothing_else_is(table: Table) -> None:
    locations = [add_file(table, "data/x.parquet"), add_file(table, "metadata/y.avro")]
    before = table.scan().to_arrow()
    report = clean_orphans(table, older_than=AT_ONCE, dry_run=False)
    assert (report.deleted, report.failures) == (2, {})
    assert not any(local_path(location).exists() for location in locations)
    assert table.scan().to_arrow() == before
    assert clean_orphans(table, older_than=AT_ONCE).orphans == ()


def test_young_files_may_belong_to_a_commit_under_way(table: Table) -> None:
    add_file(table, "data/x.parquet")
    report = clean_orphans(table)
    assert (report.orphans, report.too_young) == ((), 1)


def test_a_moment_can_be_given_instead_of_an_age(table: Table) -> None:
    add_file(table, "data/x.parquet")
    assert clean_orphans(table, older_than=datetime.now(UTC) - timedelta(hours=1)).orphans == ()
    assert len(clean_orphans(table, older_than=datetime.now(UTC) + timedelta(hours=1)).orphans) == 1


@pytest.mark.parametrize("older_than", [timedelta(days=-1), datetime(2026, 1, 1)])
def test_ages_that_mean_nothing_are_refused(table: Table, older_than: Any) -> None:
    with pytest.raises(ConfigurationError, match="older_than"):
        clean_orphans(table, older_than=older_than)


def test_files_of_an_expired_snapshot_are_orphans(table: Table) -> None:
    old = table.history()[0].snapshot_id
    kept = {task.file.file_path for task in table.scan().plan_files()}
    dropped = {task.file.file_path for task in table.scan(snapshot_id=old).plan_files()} - kept
    assert dropped
    assert clean_orphans(table, older_than=AT_ONCE).orphans == ()
    for entry in table.history()[:-1]:
        table.maintenance.expire_snapshots().by_id(entry.snapshot_id).commit()
    orphans = set(found(clean_orphans(table, older_than=AT_ONCE)))
    assert dropped <= orphans
    assert not orphans & kept


def test_what_another_writer_committed_meanwhile_is_no_orphan(table: Table, catalog: InMemoryCatalog) -> None:
    catalog.load_table("db.t").append(ROWS)
    assert clean_orphans(table, older_than=AT_ONCE).orphans == ()


@pytest.mark.parametrize("name", ["metadata/version-hint.text", "metadata/.version-hint.text.crc"])
def test_files_of_hadoop_catalogs_are_kept(table: Table, name: str) -> None:
    add_file(table, name)
    assert clean_orphans(table, older_than=AT_ONCE).orphans == ()


def test_a_checksum_belongs_to_its_file(table: Table) -> None:
    file = local_path(next(iter(table.scan().plan_files())).file.file_path)
    file.with_name(f".{file.name}.crc").write_bytes(b"crc")
    stray = add_file(table, "data/.gone.parquet.crc")
    assert found(clean_orphans(table, older_than=AT_ONCE)) == [stray]


def test_a_folder_with_files_of_another_table_is_refused(catalog: InMemoryCatalog, table: Table) -> None:
    catalog.create_table("db.other", ROWS.schema, location=f"{table.location()}/data/other").append(ROWS)
    with pytest.raises(ConfigurationError, match="another table has its metadata at"):
        clean_orphans(table, older_than=AT_ONCE, dry_run=False)


def test_metadata_that_a_killed_writer_cut_off_is_an_orphan(table: Table) -> None:
    location = add_file(table, "metadata/00009-x.metadata.json")
    assert found(clean_orphans(table, older_than=AT_ONCE)) == [location]


@pytest.mark.parametrize("root", ["/", "file:///", "s3://bucket", "s3://bucket/"])
def test_a_whole_storage_is_refused(table: Table, root: str) -> None:
    with pytest.raises(ConfigurationError, match="whole storage"):
        clean_orphans(table, location=root)


def test_a_place_without_the_files_that_should_be_there_is_refused(table: Table, tmp_path: Path) -> None:
    folder = local_path(table.location())
    shutil.copytree(folder, tmp_path / "copy")
    moved = StaticTable.from_metadata(str(tmp_path / "copy/metadata" / Path(table.metadata_location).name))
    for path in (folder / "data").iterdir():
        path.rename(path.with_name(f"renamed-{path.name}"))
    with pytest.raises(ConfigurationError, match="none of the"):
        clean_orphans(moved, older_than=AT_ONCE, location=f"{table.location()}/data")


def test_a_table_without_its_catalog_can_be_searched_but_not_cleaned(table: Table) -> None:
    location = add_file(table, "data/x.parquet")
    static = StaticTable.from_metadata(table.metadata_location)
    assert found(clean_orphans(static, older_than=AT_ONCE)) == [location]
    with pytest.raises(UnsupportedError, match="from its catalog"):
        clean_orphans(static, older_than=AT_ONCE, dry_run=False)


def test_spellings_of_one_local_file_are_one_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    catalog = new_catalog(tmp_path / "link")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    location = str(real / Path(local_path(table.location())).relative_to(tmp_path / "link"))
    assert clean_orphans(table, older_than=AT_ONCE, location=location).orphans == ()
    assert clean_orphans(table, older_than=AT_ONCE, location=f"file:{location}").orphans == ()


@pytest.mark.parametrize("io", ["pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"])
def test_both_of_pyicebergs_storages_are_listed_alike(tmp_path: Path, io: str) -> None:
    properties = {"type": "sql", "uri": "sqlite:///:memory:", "warehouse": tmp_path.as_uri(), "py-io-impl": io}
    with load_catalog("c", **properties) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", ROWS.schema)
        table.append(ROWS)
        location = add_file(table, "data/a b%20c.parquet")
        report = clean_orphans(table, older_than=AT_ONCE, dry_run=False)
        assert (found(report), report.deleted) == ([location], 1)
        assert not local_path(location).exists()


class Bucket(PyArrowFileIO):
    """An object store, as far as its locations go."""

    def __init__(self, folder: Path) -> None:
        super().__init__({})
        storage = SubTreeFileSystem(str(folder), LocalFileSystem())
        self.fs_by_scheme = lambda scheme, authority: storage


def test_locations_in_object_stores_are_spelled_as_they_were_given(tmp_path: Path) -> None:
    (tmp_path / "bucket/t/data").mkdir(parents=True)
    (tmp_path / "bucket/t/data/x=1+2.parquet").write_bytes(b"x")
    files = list(list_files("s3a://bucket/t/", Bucket(tmp_path)))
    assert [file.location for file in files] == ["s3a://bucket/t/data/x=1+2.parquet"]
    assert files[0].modified is not None


def test_a_file_that_differs_in_its_host_alone_is_not_deleted_by_guess(table: Table) -> None:
    location = f"hdfs://other-host{local_path(table.location())}"
    elsewhere = StaticTable(("db", "t"), table.metadata, table.metadata_location, Bucket(Path("/")), table.catalog)
    with pytest.raises(ConfigurationError, match="cannot be told whether they are one file"):
        clean_orphans(elsewhere, older_than=AT_ONCE, location=location)
