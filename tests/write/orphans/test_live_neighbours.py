"""Whatever lies in and around the folders of a table: no live file is ever deleted."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import ConfigurationError
from formatkit.write.orphans import OrphanReport, clean_orphans
from support.iceberg_tables import local_path
from support.orphans import add_file, files_of, make_old

ROWS = pa.table({"id": [1, 2, 3]})


def data_name() -> str:
    return f"00000-{uuid4()}-00001.parquet"


def new_sql_catalog(folder: Path, name: str) -> SqlCatalog:
    made = SqlCatalog(name, uri=f"sqlite:///{folder}/{name}.db", warehouse=(folder / "warehouse").as_uri())
    made.create_namespace_if_not_exists("db")
    return made


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with closing(new_sql_catalog(tmp_path, "catalog")) as made:
        yield made


@pytest.fixture
def other_catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with closing(new_sql_catalog(tmp_path, "other")) as made:
        yield made


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    return filled(catalog, "db.t")


def filled(catalog: Catalog, name: str, location: str | None = None, **properties: str) -> Table:
    table = catalog.create_table(name, ROWS.schema, location=location, properties=properties)
    formatkit.append(table, ROWS)
    table.append(ROWS)
    return table


def cleaned(table: Table, tmp_path: Path, **options: Any) -> OrphanReport:
    """Clean when everything is old, and see that no file is missing that is not an orphan by the report."""
    make_old(tmp_path)
    before = files_of(tmp_path)
    report = clean_orphans(table, dry_run=False, journal=tmp_path / f"{uuid4()}.jsonl", **options)
    gone = before - files_of(tmp_path)
    assert gone == {local_path(file.location).resolve() for file in report.orphans}
    return report


def assert_whole(*tables: Table, rows: int = 6) -> None:
    for table in tables:
        assert formatkit.scan(table).to_arrow().num_rows == rows
        assert table.scan().to_arrow().num_rows == rows


@pytest.mark.parametrize("where", ["t/data", "t/data/sub", "t", "t/metadata", "t/data/0101/0101/0101"])
def test_data_of_another_table_in_a_folder_of_the_table_is_kept(
    catalog: SqlCatalog, table: Table, tmp_path: Path, where: str
) -> None:
    folder = f"{table.location().removesuffix('/t')}/{where}"
    other = filled(catalog, "db.other", (tmp_path / "far").as_uri(), **{"write.data.path": folder})
    uncommitted = local_path(f"{folder}/{data_name()}")
    uncommitted.write_bytes(b"about to be committed")
    report = cleaned(table, tmp_path)
    assert uncommitted.exists()
    assert any("shared with table db.other" in reason for reason in report.kept.values())
    assert_whole(table, other)


@pytest.mark.parametrize("link", [False, True])
def test_a_shared_data_path_is_nobodys_own(catalog: SqlCatalog, tmp_path: Path, link: bool) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "link").symlink_to(shared)
    first = filled(catalog, "db.a", **{"write.data.path": shared.as_uri()})
    second = filled(catalog, "db.b", **{"write.data.path": (tmp_path / "link" if link else shared).as_uri()})
    assert cleaned(first, tmp_path).orphans == ()
    assert cleaned(second, tmp_path, location=shared.as_uri()).orphans == ()
    assert_whole(first, second)


@pytest.mark.parametrize("inner", ["t/data/inner", "t/inner", "t/metadata/inner", "t/data"])
def test_a_table_inside_of_a_table_is_kept(catalog: SqlCatalog, table: Table, tmp_path: Path, inner: str) -> None:
    location = f"{table.location().removesuffix('/t')}/{inner}"
    far = (tmp_path / "far").as_uri()
    near = filled(catalog, "db.near", location)
    nested = filled(catalog, "db.nested", f"{location}2", **{"write.metadata.path": far})
    orphan = add_file(table, f"data/{data_name()}")
    report = cleaned(table, tmp_path)
    assert [file.location for file in report.orphans] == ([] if inner == "t/data" else [orphan])
    assert_whole(table, near, nested)


def test_tables_inside_of_another_catalogs_table_are_noticed_by_their_metadata(
    table: Table, other_catalog: SqlCatalog, tmp_path: Path
) -> None:
    stranger = filled(other_catalog, "db.x", f"{table.location()}/data/id=5")
    cleaned(table, tmp_path)
    assert_whole(table, stranger)


def test_a_table_of_another_catalog_at_the_same_location_is_noticed_by_its_metadata(
    table: Table, other_catalog: SqlCatalog, tmp_path: Path
) -> None:
    stranger = filled(other_catalog, "db.t", table.location())
    add_file(table, f"data/{data_name()}")
    report = cleaned(table, tmp_path)
    assert report.orphans == ()
    assert any("shared with the table that has its metadata at" in reason for reason in report.kept.values())
    assert_whole(table, stranger)


def test_metadata_of_a_dropped_table_keeps_its_files(catalog: SqlCatalog, tmp_path: Path) -> None:
    dropped = filled(catalog, "db.t")
    location = dropped.metadata_location
    catalog.drop_table("db.t")
    table = filled(catalog, "db.t")
    assert cleaned(table, tmp_path).orphans == ()
    assert_whole(table, catalog.register_table("db.again", location))


@pytest.mark.parametrize("namespace", [("db",), ("deep", "er", "still")])
def test_tables_registered_from_the_same_metadata_count_both(
    catalog: SqlCatalog, table: Table, tmp_path: Path, namespace: tuple[str, ...]
) -> None:
    catalog.create_namespace_if_not_exists(namespace)
    twin = catalog.register_table((*namespace, "twin"), table.metadata_location)
    twin.append(ROWS)
    formatkit.append(table, ROWS)
    formatkit.delete(table, "id = 2")
    for entry in table.history()[:-1]:
        table.maintenance.expire_snapshots().by_id(entry.snapshot_id).commit()
    assert cleaned(table, tmp_path).orphans == ()
    assert cleaned(twin, tmp_path).orphans == ()
    assert_whole(twin, rows=9)


def test_a_twin_in_another_catalog_is_noticed_by_its_metadata(
    table: Table, other_catalog: SqlCatalog, tmp_path: Path
) -> None:
    twin = other_catalog.register_table("db.twin", table.metadata_location)
    formatkit.append(twin, ROWS)
    twin.append(ROWS)
    orphan = add_file(table, f"data/{data_name()}")
    report = cleaned(table, tmp_path, location=f"{table.location()}/data")
    assert [file.location for file in report.orphans] == [orphan]
    assert_whole(twin.refresh(), rows=12)
    assert_whole(table)


def test_commits_that_failed_long_ago_are_read_once(table: Table, tmp_path: Path) -> None:
    metadata = json.loads(local_path(table.metadata_location).read_text())
    strays = [
        add_file(table, f"metadata/00009-{uuid4()}.metadata.json", json.dumps(metadata).encode()) for _ in range(50)
    ]
    orphan = add_file(table, f"data/{data_name()}")
    report = cleaned(table, tmp_path)
    assert [file.location for file in report.orphans] == [orphan]
    assert set(report.kept) == set(strays)


def test_a_table_elsewhere_that_refers_to_the_tables_files_keeps_them(
    catalog: SqlCatalog, table: Table, tmp_path: Path
) -> None:
    name = data_name()
    location = add_file(table, f"data/{name}")
    pq.write_table(ROWS, local_path(location))
    borrower = catalog.create_table("db.borrower", ROWS.schema)
    # Spelled in a way that no comparison of strings would find.
    borrower.add_files([f"file:{local_path(table.location())}/../t/data/{name}"])
    report = cleaned(table, tmp_path)
    assert report.kept[location] == "table db.borrower refers to a file of its name"
    assert_whole(borrower, rows=3)


@pytest.mark.parametrize("damage", ["metadata", "manifest list"])
def test_a_table_that_cannot_be_loaded_stops_everything(
    catalog: SqlCatalog, table: Table, tmp_path: Path, damage: str
) -> None:
    broken = filled(catalog, "db.broken")
    snapshot = broken.current_snapshot()
    assert snapshot is not None
    local_path(broken.metadata_location if damage == "metadata" else snapshot.manifest_list).unlink()
    orphan = add_file(table, f"data/{data_name()}")
    assert "db.broken" in clean_orphans(table).blocked[0]
    with pytest.raises(ConfigurationError, match=r"db\.broken.*location_is_exclusive"):
        clean_orphans(table, dry_run=False)
    assert local_path(orphan).exists()
    assert cleaned(table, tmp_path, location_is_exclusive=True).deleted == 1


class Unlisted(SqlCatalog):
    def list_namespaces(self, namespace: Any = ()) -> Any:
        raise PermissionError("not for you")


def test_a_catalog_that_does_not_list_its_tables_needs_the_callers_word(table: Table, tmp_path: Path) -> None:
    orphan = add_file(table, f"data/{data_name()}")
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", (tmp_path / "warehouse").as_uri()
    with closing(Unlisted("catalog", uri=uri, warehouse=warehouse)) as catalog:
        loaded = catalog.load_table("db.t")
        assert "cannot list its tables (PermissionError: not for you)" in clean_orphans(loaded).blocked[0]
        with pytest.raises(ConfigurationError, match="location_is_exclusive"):
            clean_orphans(loaded, dry_run=False)
        assert local_path(orphan).exists()
        assert cleaned(loaded, tmp_path, location_is_exclusive=True).deleted == 1


def test_links_are_never_followed(catalog: SqlCatalog, table: Table, tmp_path: Path) -> None:
    other = filled(catalog, "db.other")
    data, far = local_path(f"{table.location()}/data"), local_path(f"{other.location()}/data")
    (tmp_path / "outside").mkdir()
    outside = tmp_path / "outside" / data_name()
    outside.write_bytes(b"somebody's")
    (data / "id=1").symlink_to(far)
    (data / "0101").symlink_to(tmp_path / "outside")
    (data / data_name()).symlink_to(outside)
    (data / data_name()).symlink_to(data / "nowhere")
    (local_path(f"{table.location()}/loop")).symlink_to(local_path(table.location()))
    report = cleaned(table, tmp_path)
    assert report.orphans == ()
    assert list(report.kept.values()) == ["it is a symbolic link"] * 5
    assert len([path for path in data.iterdir() if path.is_symlink()]) == 4
    assert_whole(table, other)


def test_a_data_folder_that_is_a_link_is_not_the_tables_own(
    catalog: SqlCatalog, other_catalog: SqlCatalog, tmp_path: Path
) -> None:
    stranger = filled(other_catalog, "db.x", (tmp_path / "far").as_uri())
    table = catalog.create_table("db.t", ROWS.schema)
    data = local_path(f"{table.location()}/data")
    data.symlink_to(tmp_path / "far/data")
    assert cleaned(table, tmp_path).orphans == ()
    with pytest.raises(ConfigurationError, match="is not a folder of the table"):
        clean_orphans(table, location=f"{table.location()}/data", dry_run=False)
    assert_whole(stranger)


def test_metadata_that_makes_no_sense_stops_everything_or_nothing(table: Table) -> None:
    orphan = add_file(table, f"data/{data_name()}")
    path = local_path(add_file(table, "data/id=1/metadata/x.metadata.json"))
    path.write_text('{"location": 5, "properties": "x", "snapshots": 7}')
    with pytest.raises(ConfigurationError, match=r"x\.metadata\.json"):
        clean_orphans(table, dry_run=False)
    for content in ('{"properties": []}', '{"table-uuid": {}, "location": "file://host/x"}', "[]", "null", ""):
        path.write_text(content)
        assert [file.location for file in clean_orphans(table).orphans] == [orphan]
    assert path.exists()


def test_a_small_metadata_file_that_is_large_once_decompressed_stops_everything(table: Table) -> None:
    orphan = local_path(add_file(table, f"data/{data_name()}"))
    path = local_path(add_file(table, f"metadata/00009-{uuid4()}.gz.metadata.json"))
    path.write_bytes(gzip.compress(b'{"location": "' + b"a" * 2**26 + b'"}'))
    with pytest.raises(ConfigurationError, match="once decompressed"):
        clean_orphans(table, dry_run=False)
    assert orphan.exists()


def test_names_that_are_not_text_are_kept(table: Table, tmp_path: Path) -> None:
    name = os.fsencode(local_path(f"{table.location()}/data")) + b"/00000-\xff.parquet"
    with open(name, "wb") as stream:  # noqa: PTH123 - paths are text
        stream.write(b"x")
    report = clean_orphans(table, dry_run=False)
    assert [reason for location, reason in report.kept.items() if r"\xff" in location] == ["its name is not UTF-8"]
    assert os.path.exists(name)  # noqa: PTH110


def test_a_table_that_holds_its_warehouse_and_catalog_loses_neither(catalog: SqlCatalog, tmp_path: Path) -> None:
    inner = filled(catalog, "db.inner")
    outer = filled(catalog, "db.outer", tmp_path.as_uri())
    orphan = add_file(outer, f"data/{data_name()}")
    report = cleaned(outer, tmp_path)
    assert [file.location for file in report.orphans] == [orphan]
    assert (tmp_path / "catalog.db").exists()
    assert_whole(inner, outer)
    assert cleaned(inner, tmp_path).orphans == ()


def handler(catalog: SqlCatalog) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.endswith("/config"):
                self.answer({"defaults": {}, "overrides": {}})
            elif path.endswith("/namespaces"):
                self.answer({"namespaces": [] if "parent=" in self.path else [["db"]]})
            elif path.endswith("/tables"):
                self.answer({"identifiers": [{"namespace": ["db"], "name": "t"}]})
            else:
                table = catalog.load_table("db.t")
                metadata = json.loads(table.metadata.model_dump_json())
                shown = {reference["snapshot-id"] for reference in metadata["refs"].values()}
                # Servers of old and new say nothing of snapshots that no branch or tag has.
                metadata["snapshots"] = [each for each in metadata["snapshots"] if each["snapshot-id"] in shown]
                metadata["snapshot-log"] = [each for each in metadata["snapshot-log"] if each["snapshot-id"] in shown]
                self.answer({"metadata-location": table.metadata_location, "metadata": metadata, "config": {}})

        def answer(self, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def test_snapshots_that_a_rest_catalog_does_not_show_are_live(
    catalog: SqlCatalog, table: Table, tmp_path: Path
) -> None:
    table.delete("id = 2")
    orphan = add_file(table, f"data/{data_name()}")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(catalog))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        uri = f"http://127.0.0.1:{server.server_port}"
        with closing(RestCatalog("rest", uri=uri, **{"snapshot-loading-mode": "refs"})) as rest:
            shown = rest.load_table("db.t")
            assert len(shown.metadata.snapshots) < len(table.metadata.snapshots)
            report = cleaned(shown, tmp_path)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert [file.location for file in report.orphans] == [orphan]
    for entry in table.history():
        table.scan(snapshot_id=entry.snapshot_id).to_arrow()


def test_branches_tags_and_statistics_are_live(table: Table, tmp_path: Path) -> None:
    first = table.history()[0].snapshot_id
    with table.manage_snapshots() as manage:
        manage.create_tag(first, "kept")
    statistics = add_file(table, f"metadata/{first}-{uuid4()}.stats")
    partitions = add_file(table, f"metadata/partition-stats-{first}-{uuid4()}.parquet")
    metadata = json.loads(local_path(table.metadata_location).read_text())
    # A kind of blob that pyiceberg does not know.
    blob = {"type": "x-v9", "snapshot-id": first, "sequence-number": 1, "fields": [1], "properties": {}}
    size = {"file-size-in-bytes": 11, "snapshot-id": first}
    metadata["statistics"] = [
        {"statistics-path": statistics, "file-footer-size-in-bytes": 1, "blob-metadata": [blob], **size}
    ]
    metadata["partition-statistics"] = [{"statistics-path": partitions, **size}]
    local_path(table.metadata_location).write_text(json.dumps(metadata))
    make_old(tmp_path)
    report = clean_orphans(formatkit.load_table(table.metadata_location))
    assert (report.orphans, dict(report.kept)) == ((), {})


NEIGHBOURS: dict[str, Callable[[SqlCatalog, SqlCatalog, Table, Path, random.Random], None]] = {}


def neighbour(make: Callable[[SqlCatalog, SqlCatalog, Table, Path, random.Random], None]) -> None:
    NEIGHBOURS[make.__name__] = make


@neighbour
def inside(catalog: SqlCatalog, _: SqlCatalog, table: Table, __: Path, chance: random.Random) -> None:
    folder = chance.choice(["data", "data/a", "data/id=1", "metadata", "metadata/b", "c", "data/0101/0110/0011"])
    filled(catalog, f"db.inside_{uuid4().hex}", f"{table.location()}/{folder}/{uuid4().hex}")


@neighbour
def sharing(catalog: SqlCatalog, _: SqlCatalog, table: Table, tmp_path: Path, chance: random.Random) -> None:
    folder = chance.choice(["data", "data/a", "data/id=1", "", "metadata"])
    key = chance.choice(["write.data.path", "write.metadata.path", "write.folder-storage.path"])
    properties = {key: f"{table.location()}/{folder}".rstrip("/")}
    filled(catalog, f"db.sharing_{uuid4().hex}", (tmp_path / uuid4().hex).as_uri(), **properties)


@neighbour
def twin(catalog: SqlCatalog, _: SqlCatalog, table: Table, __: Path, ___: random.Random) -> None:
    filled_twin = catalog.register_table(f"db.twin_{uuid4().hex}", table.metadata_location)
    formatkit.append(filled_twin, ROWS)


@neighbour
def foreign_twin(_: SqlCatalog, other: SqlCatalog, table: Table, __: Path, ___: random.Random) -> None:
    twin = other.register_table(f"db.twin_{uuid4().hex}", table.metadata_location)
    formatkit.append(twin, ROWS)
    twin.append(ROWS)


@neighbour
def foreign_inside(_: SqlCatalog, other: SqlCatalog, table: Table, __: Path, chance: random.Random) -> None:
    folder = chance.choice(["data/a", "data/id=1", "metadata/b", "c", ""])
    filled(other, f"db.inside_{uuid4().hex}", f"{table.location()}/{folder}".rstrip("/"))


@neighbour
def linked(catalog: SqlCatalog, _: SqlCatalog, table: Table, __: Path, chance: random.Random) -> None:
    other = filled(catalog, f"db.linked_{uuid4().hex}")
    name = chance.choice(["data/id=7", "data/0101", "data/x", "y", "metadata/z"])
    path = local_path(f"{table.location()}/{name}_{uuid4().hex[:4]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(local_path(f"{other.location()}/data"))


@neighbour
def odd_names(_: SqlCatalog, __: SqlCatalog, table: Table, ___: Path, chance: random.Random) -> None:
    live = chance.choice([local_path(task.file.file_path) for task in table.scan().plan_files()])
    for ending in chance.sample(["#", "#bak", "?", "?a=b", "%23", "%3F", " ", "\n", "\\", ";x", "&", "*"], 5):
        live.with_name(live.name + ending).write_bytes(b"copy")


@neighbour
def borrowed(catalog: SqlCatalog, _: SqlCatalog, table: Table, __: Path, ___: random.Random) -> None:
    location = add_file(table, f"data/{data_name()}")
    pq.write_table(ROWS, local_path(location))
    catalog.create_table(f"db.borrower_{uuid4().hex}", ROWS.schema).add_files([location])


def all_tables(*catalogs: SqlCatalog) -> list[Table]:
    return [catalog.load_table(each) for catalog in catalogs for each in catalog.list_tables("db")]


@pytest.mark.parametrize("seed", range(6))
def test_no_live_file_is_lost_among_neighbours_of_all_kinds(
    catalog: SqlCatalog, other_catalog: SqlCatalog, table: Table, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    made = chance.sample(sorted(NEIGHBOURS), 4)
    for name in made:
        NEIGHBOURS[name](catalog, other_catalog, table, tmp_path, chance)
    rows = {
        (each.catalog.name, *each.name()): each.scan().to_arrow().num_rows
        for each in all_tables(catalog, other_catalog)
    }
    orphan = local_path(add_file(table, f"data/{data_name()}"))
    others = files_of(tmp_path) - {orphan}
    for each in (table, *chance.sample(all_tables(catalog), 1)):
        location = chance.choice([None, each.location(), f"{each.location()}/data"])
        cleaned(each.refresh(), tmp_path, location=location)
    assert others <= files_of(tmp_path), made
    for each in all_tables(catalog, other_catalog):
        assert formatkit.scan(each).to_arrow().num_rows == rows[(each.catalog.name, *each.name())]
