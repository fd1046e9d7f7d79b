"""Reading manifest lists and manifests of every version."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import TableVersion
from pyiceberg.types import LongType, NestedField

import formatkit
from formatkit.errors import CorruptFileError, FileMissingError, UnsupportedError
from formatkit.scan.manifests import Content, Manifest, ManifestEntry, read_manifest_list, read_manifests
from formatkit.tck.naive import File
from formatkit.tck.tables import make_table, write_parquet
from support.iceberg_tables import append_data_files, columns, data_file, local_path

IO = PyArrowFileIO()
SCHEMA = columns(id=pa.int64())


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    created = catalog.create_table("db.t", schema=SCHEMA)
    for id_ in range(3):
        created.append(pa.table({"id": [id_]}, schema=SCHEMA))
    return created


def manifest_list(table: Table) -> str:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.manifest_list


def manifests(table: Table) -> list[Manifest]:
    return read_manifest_list(manifest_list(table), IO)


def entries(table: Table, *, metrics: bool = False) -> list[ManifestEntry]:
    return list(read_manifests(manifests(table), IO, metrics=metrics))


@pytest.mark.parametrize("version", ["1", "2"])
def test_what_pyiceberg_writes_is_what_it_reads_itself(catalog: InMemoryCatalog, version: str) -> None:
    created = catalog.create_table("db.versions", schema=SCHEMA, properties={"format-version": version})
    for id_ in range(3):
        created.append(pa.table({"id": [id_]}, schema=SCHEMA))
    snapshot = created.current_snapshot()
    assert snapshot is not None
    reference = [each for manifest in snapshot.manifests(IO) for each in manifest.fetch_manifest_entry(IO)]
    found = entries(created, metrics=True)
    assert len(found) == len(reference) == 3
    for ours, theirs in zip(found, reference, strict=True):
        assert ours.location == theirs.data_file.file_path
        assert ours.sequence_number == theirs.sequence_number
        assert (ours.row_count, ours.size_bytes) == (theirs.data_file.record_count, theirs.data_file.file_size_in_bytes)
        assert dict(ours.lower_bounds) == dict(theirs.data_file.lower_bounds)
        assert dict(ours.value_counts) == dict(theirs.data_file.value_counts)
        assert ours.split_offsets == theirs.data_file.split_offsets
        assert ours.content is Content.DATA


def test_sequence_numbers_are_inherited_from_the_manifest(table: Table) -> None:
    assert sorted(entry.sequence_number for entry in entries(table)) == [1, 2, 3]


def test_metrics_are_decoded_only_when_they_are_asked_for(table: Table) -> None:
    assert not any(entry.lower_bounds for entry in entries(table, metrics=False))
    assert all(entry.lower_bounds for entry in entries(table, metrics=True))


def test_deleted_entries_are_left_out(table: Table) -> None:
    table.delete("id = 1")
    assert len(entries(table)) == 2
    assert sorted(formatkit.scan(table).to_arrow().to_pydict()["id"]) == [0, 2]


def test_names_of_unknown_formats_are_kept(table: Table) -> None:
    append_data_files(table, data_file(table, f"{table.location()}/data/x.lance", 1, file_format="LANCE"))
    assert sorted({entry.file_format for entry in entries(table)}) == ["lance", "parquet"]


def files_with_row_ids(directory: Path, row_ids: list[int | None]) -> list[File]:
    schema = Schema(NestedField(1, "id", LongType()))
    return [
        write_parquet(
            directory / f"{number}.parquet",
            File(schema=schema, rows=[{1: number}, {1: number + 10}], first_row_id=row_id, sequence_number=4),
        )
        for number, row_id in enumerate(row_ids)
    ]


def test_rows_of_version_3_have_lineage(tmp_path: Path) -> None:
    files = files_with_row_ids(tmp_path, [100, None])
    table = make_table(tmp_path, [files[0].schema], files, format_version=3)
    scan = formatkit.scan(table, select=("id", "_row_id", "_last_updated_sequence_number"))
    assert scan.to_arrow().to_pydict() == {
        "id": [0, 10, 1, 11],
        "_row_id": [100, 101, None, None],
        "_last_updated_sequence_number": [4, 4, None, None],
    }


@pytest.mark.parametrize(
    ("first_row_id", "own", "expected"),
    [
        (1000, [None, None, None], [1000, 1002, 1004]),
        (1000, [None, 7, None], [1000, 7, 1002]),
        (None, [None, 7, None], [None, 7, None]),
    ],
)
def test_files_without_a_first_row_id_are_numbered_through(
    tmp_path: Path, first_row_id: int | None, own: list[int | None], expected: list[int | None]
) -> None:
    files = files_with_row_ids(tmp_path, own)
    table = make_table(tmp_path, [files[0].schema], files, format_version=3)
    (manifest,) = manifests(table)
    facts = {name: getattr(manifest, name) for name in Manifest.__slots__} | {"first_row_id": first_row_id}
    found = read_manifests([Manifest(**facts)], IO, metrics=False)
    assert [entry.first_row_id for entry in found] == expected


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_is_scanned(tmp_path: Path, version: TableVersion) -> None:
    files = files_with_row_ids(tmp_path, [None, None])
    table = make_table(tmp_path, [files[0].schema], files, format_version=version)
    assert table.format_version == version
    assert formatkit.scan(table, "id >= 1 and id < 11").to_arrow().to_pydict() == {"id": [10, 1]}


def test_a_manifest_that_lost_whole_entries_is_named(table: Table) -> None:
    append_data_files(table, *(data_file(table, f"{table.location()}/data/{number}.parquet", 1) for number in range(3)))
    path = local_path(max(manifests(table), key=lambda manifest: manifest.live_files or 0).location)
    data = path.read_bytes()
    sync = data[-16:]
    # pyiceberg writes one block for each entry, so the file without its last block is valid Avro.
    path.write_bytes(data[: data.rindex(sync, 0, len(data) - 16) + 16])
    with pytest.raises(CorruptFileError, match=f"{path.name} has .* bytes"):
        formatkit.scan(table)


DAMAGES: list[tuple[str, Any]] = [
    ("cut inside a block", lambda data: data[:-10]),
    ("cut after the header", lambda data: data[: len(data) // 3]),
    ("no Avro at all", lambda data: b"x" * len(data)),
    ("a broken block", lambda data: data[:-40] + bytes(24) + data[-16:]),
    ("a broken sync marker", lambda data: data[:-16] + bytes(16)),
    ("empty", lambda data: b""),
]


@pytest.mark.parametrize("damage", [damage for _, damage in DAMAGES], ids=[name for name, _ in DAMAGES])
def test_a_damaged_manifest_is_named_and_never_taken_for_a_shorter_one(table: Table, damage: Any) -> None:
    manifest = manifests(table)[0]
    path = local_path(manifest.location)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptFileError, match=path.name):
        formatkit.scan(table)


@pytest.mark.parametrize("damage", [damage for _, damage in DAMAGES], ids=[name for name, _ in DAMAGES])
def test_a_damaged_manifest_list_is_named_and_never_taken_for_a_shorter_one(table: Table, damage: Any) -> None:
    path = local_path(manifest_list(table))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptFileError, match=path.name):
        formatkit.scan(table)


def test_a_missing_manifest_is_named(table: Table) -> None:
    path = local_path(manifests(table)[1].location)
    path.unlink()
    with pytest.raises(FileMissingError, match=path.name):
        formatkit.scan(table)


def test_an_unknown_codec_is_named(table: Table) -> None:
    path = local_path(manifest_list(table))
    path.write_bytes(path.read_bytes().replace(b"deflate", b"inflate"))
    with pytest.raises(UnsupportedError, match="inflate"):
        formatkit.scan(table)


class RemoteIO(PyArrowFileIO):
    """Storage that is not known to be local, and that wants to be asked for several files at once."""

    def __init__(self, parties: int) -> None:
        super().__init__()
        self.meeting = threading.Barrier(parties, timeout=10)

    def new_input(self, location: str) -> PyArrowFile:
        if threading.current_thread().name.startswith("formatkit-plan"):
            self.meeting.wait()
        return super().new_input(location)


def test_remote_manifests_are_fetched_side_by_side_and_in_order(table: Table) -> None:
    found = read_manifests(manifests(table), RemoteIO(3), metrics=False)
    assert [entry.location for entry in found] == [entry.location for entry in entries(table)]


def test_planning_that_stops_early_leaves_no_thread(table: Table) -> None:
    found = read_manifests(manifests(table), RemoteIO(1), metrics=False)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("formatkit-plan")]


def test_summaries_of_old_lists_know_nothing_of_nan(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.old", schema=SCHEMA)
    with created.update_spec() as update:
        update.add_identity("id")
    created.append(pa.table({"id": [1]}, schema=SCHEMA))
    path = Path(local_path(manifest_list(created)))
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema: Any = reader.writer_schema
        lines: list[Any] = list(reader)
    [summaries] = [each for each in schema["fields"] if each["name"] == "partitions"]
    [summary] = [each for each in summaries["type"] if each != "null"]
    facts = summary["items"]["fields"]
    facts[:] = [each for each in facts if each["name"] != "contains_nan"]
    with path.open("wb") as file:
        fastavro.writer(file, schema, lines)
    [line] = manifests(created)
    [found] = line.summaries
    assert (found.contains_null, found.contains_nan) == (False, None)
    assert found.lower == found.upper == (1).to_bytes(8, "little")
    assert formatkit.scan(created, where="id = 1").count() == 1
    formatkit.delete(created, where="id = 1")
    assert formatkit.scan(created).count() == 0
