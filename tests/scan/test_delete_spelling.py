"""Deletes whose data files are spelled otherwise than in manifests: they apply, or there is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

import formatkit
from formatkit.errors import ConfigurationError, InvalidDataError, InvalidTableError, UnsupportedError
from formatkit.scan.deletes import KeySchemas
from formatkit.scan.deletes.index import DeleteIndex
from formatkit.scan.deletes.locations import Locations, bare_path, spelling
from formatkit.scan.manifests import Content, ManifestEntry
from formatkit.scan.tasks import FileTask
from support.deletes import delete_at, position_file
from support.iceberg_tables import append_data_files, append_delete_files, columns, data_file, local_path, write_rows

PATH_ID = 2147483546
SCHEMA = columns(id=pa.int64())
EQUAL_PREFIXES = "read.path.equal-prefixes"
MISMATCH_MODE = "read.path.prefix-mismatch-mode"
HDFS = "hdfs://name:8020"


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    """Ids 0 to 9 in one file, 10 to 19 in the other."""
    created = catalog.create_table("db.t", schema=SCHEMA)
    for first in (0, 10):
        created.append(pa.table({"id": list(range(first, first + 10))}, schema=SCHEMA))
    return created


def one_of(table: Table) -> str:
    """The path of the file with id 0."""
    return str(local_path(formatkit.scan(table, "id = 0").tasks[0].location))


def ids(table: Table, properties: dict[str, str] | None = None) -> list[int]:
    scan = formatkit.scan(table, properties=properties)
    found: list[Any] = scan.to_arrow()["id"].to_pylist()
    assert scan.count() == len(found)
    return sorted(found)


def bounds(lower: str, upper: str | None = None) -> dict[str, Any]:
    return {
        "lower_bounds": {PATH_ID: lower.encode()},
        "upper_bounds": {PATH_ID: (lower if upper is None else upper).encode()},
    }


def metrics(kind: str, path: str) -> dict[str, Any]:
    """What a manifest says about the locations that rows name."""
    range_of = bounds(path.rpartition("/")[0] + "/", path + "~")
    return {"nothing": {}, "one location": bounds(path), "a range": range_of, "a cut one": bounds(path[:-5])}[kind]


KINDS = ["nothing", "one location", "a range", "a cut one"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spelled", ["file:{}", "//{}", "file:///{}"])
def test_local_files_are_one_however_they_are_spelled(table: Table, spelled: str, kind: str) -> None:
    named = spelled.format(one_of(table))
    delete_at(table, "d.parquet", {named: [2]}, **metrics(kind, named))
    assert ids(table) == [0, 1, *range(3, 20)]


@pytest.mark.parametrize("rows", [1, 12_000])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", [HDFS, "hdfs://name", "s3://bucket", "hdfs:"])
def test_another_prefix_is_an_error_until_it_is_said_to_be_equal(
    table: Table, prefix: str, kind: str, rows: int
) -> None:
    named = prefix + one_of(table)
    append_delete_files(
        table, position_file(table, "d.parquet", [(named, 2)] + [(named, 500)] * rows, **metrics(kind, named))
    )
    with pytest.raises(InvalidTableError, match=r"d\.parquet deletes rows of " + prefix) as caught:
        ids(table)
    assert f"{EQUAL_PREFIXES} to '{prefix}/," in str(caught.value)
    properties = {EQUAL_PREFIXES: f"s3://other,gs://other; {prefix}/,/"}
    assert ids(table, properties) == [0, 1, *range(3, 20)]
    assert formatkit.scan(table, properties={MISMATCH_MODE: "ignore"}).count() == 20


def test_the_table_itself_may_say_which_prefixes_are_equal(table: Table) -> None:
    delete_at(table, "d.parquet", {HDFS + one_of(table): [2]})
    with table.transaction() as transaction:
        transaction.set_properties({EQUAL_PREFIXES: f"/,{HDFS}"})
    assert ids(table.refresh()) == [0, 1, *range(3, 20)]


@pytest.mark.parametrize("kind", KINDS)
def test_percent_encoding_is_noticed(table: Table, kind: str) -> None:
    location = write_rows(table, "a b/c.parquet", pa.table({"id": [20, 21]}, schema=SCHEMA))
    append_data_files(table, data_file(table, location, 2))
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'})
    named = quote(str(local_path(location)))
    assert "%20" in named
    delete_at(table.refresh(), "d.parquet", {named: [0]}, **metrics(kind, named))
    with pytest.raises(InvalidTableError, match="spelled otherwise"):
        ids(table)


def test_deletes_of_files_that_are_gone_stay_harmless(table: Table) -> None:
    one = one_of(table)
    gone = one.rpartition("/")[0] + "/gone.parquet"
    delete_at(table, "d.parquet", {gone: [1], HDFS + gone: [2], one: [3]})
    delete_at(table, "e.parquet", {gone: [1]}, **bounds(gone))
    delete_at(table, "f.parquet", {HDFS + gone: [1]}, **bounds(HDFS + gone))
    assert ids(table) == [0, 1, 2, *range(4, 20)]


@pytest.mark.parametrize("rows", [1, 12_000])
def test_a_row_without_a_location_is_an_error(table: Table, rows: int) -> None:
    paths = [one_of(table)] * rows + [None]
    data = pa.table({"file_path": pa.array(paths, pa.string()), "pos": [1] * len(paths)})
    facts = {**bounds(one_of(table)), "null_value_counts": {PATH_ID: 1}}
    content = DataFileContent.POSITION_DELETES
    append_delete_files(
        table, data_file(table, write_rows(table, "d.parquet", data), len(paths), content=content, **facts)
    )
    with pytest.raises(InvalidDataError, match=r"d\.parquet.*file_path"):
        ids(table)


def test_key_metadata_alone_do_not_make_a_file_encrypted(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": '[{"field-id": 1, "names": ["id"]}]'})
    one = one_of(table)
    location = write_rows(table, "plain.parquet", pa.table({"id": [20]}, schema=SCHEMA))
    append_data_files(table, data_file(table, location, 1, key_metadata=b"key"))
    delete_at(table, "d.parquet", {one: [2]}, key_metadata=b"key")
    assert ids(table) == [0, 1, *range(3, 21)]


@pytest.mark.parametrize("content", [b"AGS1" + bytes(200), b"PARE" + bytes(200) + b"PARE"])
@pytest.mark.parametrize("deletes", [False, True])
def test_files_that_are_encrypted_are_refused(table: Table, content: bytes, deletes: bool) -> None:
    location = write_rows(table, "secret.parquet", pa.table({"id": [20]}, schema=SCHEMA))
    local_path(location).write_bytes(content)
    if deletes:
        kind = DataFileContent.POSITION_DELETES
        append_delete_files(table, data_file(table, location, 1, content=kind, key_metadata=b"key"))
    else:
        append_data_files(table, data_file(table, location, 1, key_metadata=b"key"))
    with pytest.raises(UnsupportedError, match=r"secret\.parquet is encrypted"):
        formatkit.scan(table).to_arrow()


def entry(content: Content, location: str, **facts: Any) -> ManifestEntry:
    named = {"partition": {}, "file_format": "parquet", "row_count": 9, "size_bytes": 9, "split_offsets": (), **facts}
    return ManifestEntry(content=content, location=location, sequence_number=5, spec_id=0, **named)


def vector(location: str) -> ManifestEntry:
    facts = {"referenced_data_file": location, "content_offset": 4, "content_size": 4, "file_format": "puffin"}
    return entry(Content.POSITION_DELETES, "d.puffin", **facts)


def referring(location: str) -> ManifestEntry:
    return entry(Content.POSITION_DELETES, "d.parquet", referenced_data_file=location)


def index(*deletes: ManifestEntry, **properties: str) -> DeleteIndex:
    keys = KeySchemas([Schema(NestedField(1, "id", LongType()))])
    return DeleteIndex(deletes, keys, {0}, locations=Locations(properties))


@pytest.mark.parametrize("delete", [vector, referring])
@pytest.mark.parametrize(
    ("named", "stored"),
    [
        (f"{HDFS}/t/a", "/t/a"),
        ("/t/a", f"{HDFS}/t/a"),
        ("hdfs://name/t/a", f"{HDFS}/t/a"),
        ("s3://b//t/a", "s3://b/t/a"),
        ("s3://b/t/a", "s3://c/t/a"),
        ("gs://b/x%20y/a", "gs://b/x y/a"),
        ("file://t/a", "/t/a"),
    ],
)
def test_a_reference_to_the_same_path_elsewhere_is_an_error(delete: Any, named: str, stored: str) -> None:
    data = entry(Content.DATA, stored)
    task = FileTask(location=stored, file_format="parquet", sequence_number=5)
    made = index(delete(named))
    assert made.applying_to(data) == ()
    with pytest.raises(InvalidTableError, match="same path, spelled otherwise"):
        made.check_spellings([task], lambda: [data])
    # Both are live: the delete is about the other one.
    made.check_spellings([task], lambda: [data, entry(Content.DATA, named)])
    prefixes = f"{named.removesuffix('a')},{stored.removesuffix('a')}"
    equal = index(delete(named), **{EQUAL_PREFIXES: prefixes})
    assert len(equal.applying_to(data)) == 1
    equal.check_spellings([task], lambda: pytest.fail("no doubt is left"))


def test_deletes_that_are_older_than_a_file_are_not_about_it() -> None:
    task = FileTask(location="hdfs://n/t/a", file_format="parquet", sequence_number=6)
    index(referring("/t/a")).check_spellings([task], lambda: pytest.fail("no doubt is left"))


@pytest.mark.parametrize("location", ["/t//x%20y/a", "file:/t/x y/a", "s3a://b/t/x%20y/a", "hdfs://n:1//t/x%20y//a"])
def test_bare_paths_are_the_same_for_all_spellings(location: str) -> None:
    assert bare_path(Locations().canonical(location)) == "t/x y/a"


@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("/t/a", ("", False, False)),
        ("s3://b/t/a", ("s3://b", False, False)),
        ("s3://b//t/a", ("s3://b", True, False)),
        ("s3://b/t%20/a", ("s3://b", False, True)),
        ("s3:", None),
    ],
)
def test_spellings_differ_in_root_slashes_and_encoding(location: str, found: Any) -> None:
    assert spelling(location) == found


@pytest.mark.parametrize(
    "properties",
    [
        {EQUAL_PREFIXES: "/"},
        {EQUAL_PREFIXES: "/,file:///"},
        {EQUAL_PREFIXES: "/,name"},
        {EQUAL_PREFIXES: "/,s3://a;s3://b,/"},
        {MISMATCH_MODE: "delete"},
    ],
)
def test_prefixes_that_make_no_sense_are_refused(table: Table, properties: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(properties))):
        formatkit.scan(table, properties=properties)


def test_a_relative_uri_of_pyiceberg_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    formatkit.write_file(tmp_path / "data.parquet", pa.table({"id": [1]}))
    (tmp_path / "data").mkdir()
    (tmp_path / "data.parquet").rename(tmp_path / "data" / "a.parquet")
    assert formatkit.read_file("file://data/a.parquet").count() == 1
    with pytest.raises(ConfigurationError, match=r"there is no data/b\.parquet in the working directory"):
        formatkit.read_file("file://data/b.parquet")
