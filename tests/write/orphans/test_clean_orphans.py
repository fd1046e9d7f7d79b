from __future__ import annotations

import json
import os
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import StaticTable, Table

from formatkit.errors import ConfigurationError, StorageError, UnsupportedError
from formatkit.write.orphans import OrphanReport, clean_orphans
from formatkit.write.orphans.listing import stored_folder
from support.iceberg_tables import local_path, new_catalog
from support.orphans import add_file, files_of, make_old

ROWS = pa.table({"id": [1, 2, 3]})
UUID = "0b5f0a52-6d3c-4b0e-9a61-3f1c7a2d9e48"
DATA = f"data/00000-{UUID}-00001.parquet"
MANIFEST = f"metadata/{UUID}-m0.avro"


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


def found(report: OrphanReport) -> list[str]:
    return [file.location for file in report.orphans]


def test_a_table_without_accidents_has_no_orphans(table: Table) -> None:
    make_old(local_path(table.location()))
    report = clean_orphans(table)
    assert (report.orphans, report.kept, report.blocked) == ((), {}, ())
    assert report.searched == len(files_of(local_path(table.location())))


@pytest.mark.parametrize("name", [DATA, "data/.0b5f0a526d3c4b0e9a613f1c7a2d9e48.partial", MANIFEST])
def test_a_file_that_nothing_refers_to_is_found_and_kept_in_a_dry_run(table: Table, name: str) -> None:
    location = add_file(table, name)
    report = clean_orphans(table)
    assert found(report) == [location]
    assert report.size_bytes == len(b"left behind")
    assert (report.deleted, report.journal) == (0, None)
    assert local_path(location).exists()


NOT_PROVED = {
    "data/x.parquet": "its name",
    "metadata/version-hint.text": "its name",
    "metadata/.version-hint.text.crc": "its name",
    f"elsewhere/{Path(DATA).name}": "its folder",
    Path(DATA).name: "its folder",
    f"data/other/{Path(DATA).name}": "its folder",
    f"data/id=1/{Path(DATA).name}": "its folder",
    f"data/orders/{Path(DATA).name}": "its folder",
    f"metadata/{Path(DATA).name}": "its folder",
    f"metadata/deep/{Path(MANIFEST).name}": "its folder",
    f"data/{Path(MANIFEST).name}": "its folder",
}


def test_a_file_that_is_not_proved_to_be_the_tables_is_kept_and_reported(table: Table) -> None:
    locations = {add_file(table, name): reason for name, reason in NOT_PROVED.items()}
    report = clean_orphans(table, dry_run=False)
    assert (report.orphans, report.deleted, report.kept.keys()) == ((), 0, locations.keys())
    assert all(report.kept[location].startswith(reason) for location, reason in locations.items())
    assert all(local_path(location).exists() for location in locations)


def test_orphans_are_deleted_if_asked_to_and_nothing_else_is(table: Table) -> None:
    locations = [add_file(table, DATA), add_file(table, MANIFEST)]
    before = table.scan().to_arrow()
    report = clean_orphans(table, dry_run=False)
    assert (report.deleted, report.failures) == (2, {})
    assert not any(local_path(location).exists() for location in locations)
    assert table.scan().to_arrow() == before
    assert clean_orphans(table).orphans == ()


def test_young_files_may_belong_to_a_commit_under_way(table: Table) -> None:
    location = add_file(table, DATA, days=2.9)
    report = clean_orphans(table)
    assert (report.orphans, report.too_young, dict(report.kept)) == ((), 1, {location: "it is too young"})


def test_a_moment_can_be_given_instead_of_an_age(table: Table) -> None:
    add_file(table, DATA, days=5)
    assert clean_orphans(table, older_than=datetime.now(UTC) - timedelta(days=6)).orphans == ()
    assert len(clean_orphans(table, older_than=datetime.now(UTC) - timedelta(days=4)).orphans) == 1


@pytest.mark.parametrize("older_than", [timedelta(days=-1), datetime(2026, 1, 1)])
def test_ages_that_mean_nothing_are_refused(table: Table, older_than: Any) -> None:
    with pytest.raises(ConfigurationError, match="older_than"):
        clean_orphans(table, older_than=older_than)


def test_files_of_today_count_only_by_force(table: Table) -> None:
    location = add_file(table, DATA, days=0.99)
    for older_than in (timedelta(0), timedelta(hours=23), datetime.now(UTC) + timedelta(days=1)):
        for dry_run in (True, False):
            with pytest.raises(ConfigurationError, match="24 hours"):
                clean_orphans(table, older_than=older_than, dry_run=dry_run)
        assert found(clean_orphans(table, older_than=older_than, force=True)) == [location]
    assert clean_orphans(table, older_than=timedelta(0), dry_run=False, force=True).deleted == 1


def test_files_of_the_future_are_kept_even_by_force(table: Table) -> None:
    location = add_file(table, DATA, days=-1)
    report = clean_orphans(table, older_than=datetime.now(UTC) + timedelta(days=9), dry_run=False, force=True)
    assert report.kept[location].startswith("it was written in the future")
    assert local_path(location).exists()


def test_files_of_an_expired_snapshot_are_orphans(table: Table) -> None:
    old = table.history()[0].snapshot_id
    kept = {task.file.file_path for task in table.scan().plan_files()}
    dropped = {task.file.file_path for task in table.scan(snapshot_id=old).plan_files()} - kept
    assert dropped
    make_old(local_path(table.location()))
    assert clean_orphans(table).orphans == ()
    for entry in table.history()[:-1]:
        table.maintenance.expire_snapshots().by_id(entry.snapshot_id).commit()
    report = clean_orphans(table, dry_run=False)
    assert dropped <= set(found(report))
    assert not set(found(report)) & kept
    assert report.deleted == len(report.orphans)
    assert table.scan().to_arrow().num_rows == 4


def test_what_another_writer_committed_meanwhile_is_no_orphan(table: Table, catalog: InMemoryCatalog) -> None:
    catalog.load_table("db.t").append(ROWS)
    make_old(local_path(table.location()))
    assert clean_orphans(table).orphans == ()


def test_a_checksum_belongs_to_its_file(table: Table) -> None:
    file = local_path(next(iter(table.scan().plan_files())).file.file_path)
    add_file(table, f"data/.{file.name}.crc")
    young = f"00000-{uuid4()}-00001.parquet"
    add_file(table, f"data/{young}", days=1)
    crc = add_file(table, f"data/.{young}.crc")
    alone = add_file(table, f"data/.00000-{uuid4()}-00001.parquet.crc")
    both = [add_file(table, DATA), add_file(table, f"data/.{Path(DATA).name}.crc")]
    report = clean_orphans(table)
    assert found(report) == sorted([alone, *both])
    assert report.kept[crc] == "it is the checksum of a file that is kept"


@pytest.mark.parametrize("content", [b"", b'{"format-version": 2, "table-uuid": "', b"\x1f\x8b"])
def test_metadata_that_a_killed_writer_cut_off_is_an_orphan(table: Table, content: bytes) -> None:
    location = add_file(table, f"metadata/00009-{uuid4()}.metadata.json", content)
    assert found(clean_orphans(table)) == [location]


def test_a_whole_storage_is_refused(table: Table) -> None:
    for root in ("/", "file:///", "s3://bucket", "s3://bucket/", "//", "file:", "file:////"):
        with pytest.raises(ConfigurationError, match=r"whole storage|empty name"):
            clean_orphans(table, location=root, dry_run=False)


def test_roots_that_do_not_mean_one_folder_are_refused(table: Table) -> None:
    tails = ("/.", "/..", "/data/../..", "/./data", "//data", "/%2e%2e", "/data/%2E", "?", "#x")
    for root in (*(f"{table.location()}{tail}" for tail in tails), "file:///.", "/a/..", "s3://bucket/.", ".", ".."):
        with pytest.raises(ConfigurationError, match="give the folder of one table"):
            clean_orphans(table, location=root, dry_run=False)


def test_a_folder_that_is_not_the_tables_is_refused(table: Table, tmp_path: Path) -> None:
    for location in (
        str(tmp_path),
        tmp_path.as_uri(),
        f"{table.location()}2",
        "s3://bucket/db/t",
        str(tmp_path.parent),
    ):
        with pytest.raises(ConfigurationError, match="is not a folder of the table"):
            clean_orphans(table, location=location, dry_run=False)


def test_a_folder_inside_can_be_looked_at_alone(table: Table) -> None:
    location = add_file(table, DATA)
    add_file(table, MANIFEST)
    assert found(clean_orphans(table, location=f"{table.location()}/data/")) == [location]


def test_a_table_without_its_catalog_can_be_searched_but_not_cleaned(table: Table) -> None:
    location = add_file(table, DATA)
    static = StaticTable.from_metadata(table.metadata_location)
    report = clean_orphans(static)
    assert found(report) == [location]
    assert "cannot list its tables" in report.blocked[0]
    with pytest.raises(UnsupportedError, match="from its catalog"):
        clean_orphans(static, dry_run=False, location_is_exclusive=True)


def test_a_place_without_the_files_that_should_be_there_is_refused(table: Table, tmp_path: Path) -> None:
    folder = local_path(table.location())
    shutil.copytree(folder, tmp_path / "copy")
    moved = StaticTable.from_metadata(str(tmp_path / "copy/metadata" / Path(table.metadata_location).name))
    for path in (folder / "data").iterdir():
        path.rename(path.with_name(f"00000-{uuid4()}-00001.parquet"))
    with pytest.raises(ConfigurationError, match="none of the files"):
        clean_orphans(moved, location=f"{table.location()}/data")


def test_metadata_that_cannot_be_read_stops_everything(table: Table) -> None:
    location = add_file(table, DATA)
    local_path(table.current_snapshot().manifest_list).unlink()  # type: ignore[union-attr]
    with pytest.raises(StorageError):
        clean_orphans(table, dry_run=False)
    assert local_path(location).exists()


def test_spellings_of_one_local_file_are_one_file(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    catalog = new_catalog(tmp_path / "link")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    make_old(real)
    location = str(real / Path(local_path(table.location())).relative_to(tmp_path / "link"))
    orphan = Path(local_path(add_file(table, DATA)))
    for spelled in (location, f"file:{location}", table.location()):
        assert [Path(local_path(each)).name for each in found(clean_orphans(table, location=spelled))] == [orphan.name]
    assert clean_orphans(table, dry_run=False).deleted == 1


STORAGES = {
    "arrow": {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"},
    "fsspec": {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
    "runtime": {"py-io-impl": "formatkit.io.RuntimeFileIO"},
    "runtime, fsspec": {
        "py-io-impl": "formatkit.io.RuntimeFileIO",
        "formatkit.py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    },
}


@pytest.mark.parametrize("storage", STORAGES)
def test_all_storages_are_listed_alike(tmp_path: Path, storage: str) -> None:
    properties = {"type": "sql", "uri": "sqlite:///:memory:", "warehouse": tmp_path.as_uri(), **STORAGES[storage]}
    with load_catalog("c", **properties) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", ROWS.schema)
        table.append(ROWS)
        make_old(tmp_path)
        live = local_path(next(iter(table.scan().plan_files())).file.file_path)
        location = add_file(table, DATA)
        strangers = [add_file(table, f"data/{live.name}{ending}") for ending in ("#bak", "?x", "%23", " ", "\n")]
        report = clean_orphans(table, dry_run=False)
        assert (found(report), report.deleted, set(report.kept)) == ([location], 1, set(strangers))
        assert not local_path(location).exists()
        assert live.exists()
        assert table.scan().to_arrow().num_rows == 3


class Bucket(PyArrowFileIO):
    """An object store, as far as its locations go."""

    def __init__(self, folder: Path) -> None:
        super().__init__({})
        storage = SubTreeFileSystem(str(folder), LocalFileSystem())
        self.fs_by_scheme = lambda scheme, authority: storage


def test_locations_in_object_stores_are_spelled_as_they_were_given(tmp_path: Path) -> None:
    (tmp_path / "bucket/t/data").mkdir(parents=True)
    (tmp_path / "bucket/t/data/x=1+2.parquet").write_bytes(b"x")
    folder = stored_folder("s3a://bucket/t/", Bucket(tmp_path))
    (file,) = folder.files()
    assert (file.location, file.path) == ("s3a://bucket/t/data/x=1+2.parquet", "data/x=1+2.parquet")
    assert file.modified is not None
    assert folder.read(file) == b"x"
    assert folder.delete(file) is None
    assert list(folder.files()) == []


def test_a_file_that_changed_since_it_was_listed_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "bucket/x.parquet"
    path.parent.mkdir()
    for location, io in (("s3://bucket", Bucket(tmp_path)), (path.parent.as_uri(), PyArrowFileIO({}))):
        for content, moment in ((b"longer", 1e9), (b"x", 2e9)):
            path.write_bytes(b"x")
            os.utime(path, (1e9, 1e9))
            folder = stored_folder(location, io)
            (file,) = folder.files()
            path.write_bytes(content)
            os.utime(path, (moment, moment))
            assert folder.delete(file) == "it changed since it was listed"
            assert path.exists()


def test_a_folder_that_became_a_link_since_it_was_listed_is_not_followed(tmp_path: Path) -> None:
    for name in ("here/data", "there"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.parquet").write_bytes(b"x")
        os.utime(tmp_path / name / "x.parquet", (1e9, 1e9))
    folder = stored_folder(str(tmp_path / "here"), PyArrowFileIO({}))
    (file,) = folder.files()
    shutil.rmtree(tmp_path / "here/data")
    (tmp_path / "here/data").symlink_to(tmp_path / "there")
    with pytest.raises(OSError, match="data"):
        folder.delete(file)
    assert (tmp_path / "there/x.parquet").exists()


def lines(location: str | None) -> list[dict[str, Any]]:
    assert location is not None
    return [json.loads(line) for line in local_path(location).read_text().splitlines()]


def test_the_journal_says_what_was_deleted_and_is_never_an_orphan(table: Table) -> None:
    locations = sorted([add_file(table, DATA), add_file(table, MANIFEST)])
    report = clean_orphans(table, dry_run=False)
    plan, *rest = lines(report.journal)
    assert plan["table"] == ["db", "t"]
    assert plan["table_uuid"] == str(table.metadata.table_uuid)
    assert plan["metadata_location"] == table.metadata_location
    assert [line["location"] for line in rest if line["kind"] == "file"] == locations
    outcomes = [(line["location"], line["problem"]) for line in rest if line["kind"] == "outcome"]
    assert outcomes == [(location, None) for location in locations]
    assert report.journal is not None
    make_old(local_path(report.journal))
    again = clean_orphans(table, dry_run=False)
    assert (again.orphans, again.journal) == ((), None)
    assert report.journal in again.kept


def test_without_a_journal_nothing_is_deleted(table: Table, tmp_path: Path) -> None:
    location = add_file(table, DATA)
    (tmp_path / "taken").write_bytes(b"")
    for journal in (tmp_path / "taken", tmp_path / "taken/below", str(tmp_path)):
        with pytest.raises(StorageError, match="journal"):
            clean_orphans(table, dry_run=False, journal=journal)
        assert local_path(location).exists()
    report = clean_orphans(table, dry_run=False, journal=tmp_path / "new/journal.jsonl")
    assert report.deleted == 1
    assert len(lines(report.journal)) == 3


def test_cleaning_many_files_is_quick(table: Table) -> None:
    for _ in range(500):
        add_file(table, f"data/00000-{uuid4()}-00001.parquet")
    begun = time.monotonic()
    assert clean_orphans(table, dry_run=False).deleted == 500
    assert time.monotonic() - begun < 10
