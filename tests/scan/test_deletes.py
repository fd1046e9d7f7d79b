"""Scans of tables with delete files."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.types import StringType

import formatkit
from formatkit.errors import (
    CorruptFileError,
    FormatNotRegisteredError,
    InvalidDataError,
    MissingFieldIdsError,
    UnsupportedError,
)
from formatkit.scan import Scan
from support.deletes import delete_at, delete_equal, position_file, vectors
from support.iceberg_tables import (
    append_delete_files,
    columns,
    data_file,
    local_path,
    remove_data_files,
    write_rows,
)

SCHEMA = columns(id=pa.int64(), name=pa.string(), score=pa.float64())
NAMES = ["ada", None, "bob", "eve"]


def rows_of(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table([list(ids), [NAMES[n % 4] for n in ids], [n / 2 for n in ids]], schema=SCHEMA)


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    """Ids 0 to 9 in one file, 10 to 19 in the other."""
    created = catalog.create_table("db.people", schema=SCHEMA)
    created.append(rows_of(0, 10))
    created.append(rows_of(10, 10))
    return created


def ids(scan: Any) -> list[int]:
    found: list[int] = scan.to_arrow()["id"].to_pylist()
    assert scan.count() == len(found)
    return sorted(found)


def locations(table: Table) -> list[str]:
    """Of the file with id 0, and of the one with id 10."""
    return [formatkit.scan(table, f"id = {first}").tasks[0].location for first in (0, 10)]


def without(*deleted: int) -> list[int]:
    return [number for number in range(20) if number not in deleted]


def test_rows_are_deleted_by_position_in_files_that_name_many_data_files(table: Table) -> None:
    one, other = locations(table)
    delete_at(table, "d.parquet", {other: [9, 0, 0, 3, 100], one: [5, -1], "elsewhere": [1]})
    assert ids(formatkit.scan(table)) == without(5, 10, 13, 19)


def test_several_delete_files_add_up(table: Table) -> None:
    one, other = locations(table)
    for number in range(4):
        delete_at(table, f"d{number}.parquet", {one: [number], other: [number, number + 1]})
    assert ids(formatkit.scan(table)) == without(0, 1, 2, 3, 10, 11, 12, 13, 14)


def test_position_delete_files_without_ids_are_read_by_name(table: Table) -> None:
    one, _ = locations(table)
    append_delete_files(table, position_file(table, "d.parquet", [(one, 2)], ids=False))
    assert ids(formatkit.scan(table)) == without(2)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_data_file_may_be_spelled_otherwise(table: Table, prefix: str) -> None:
    one, _ = locations(table)
    delete_at(table, "d.parquet", {prefix + str(local_path(one)): [2]})
    assert ids(formatkit.scan(table)) == without(2)


def test_large_files_of_positions_are_filtered_while_reading(table: Table) -> None:
    one, other = locations(table)
    others = [(f"{other}-{number:05}", number % 7) for number in range(20_000)]
    append_delete_files(table, position_file(table, "d.parquet", [*others, (one, 2), ("file:" + one[7:], 4)]))
    assert ids(formatkit.scan(table)) == without(2, 4)


def test_rows_are_deleted_by_equality(table: Table) -> None:
    delete_equal(table, "d.parquet", {"id": [1, 15, 99, None], "score": [0.0, 0.0, 0.0, 0.0]}, [1])
    assert ids(formatkit.scan(table)) == without(1, 15)
    delete_equal(table, "e.parquet", {"id": [3], "name": pa.nulls(1, pa.string())}, [2])
    assert ids(formatkit.scan(table, "id < 10")) == [0, 2, 3, 4, 6, 7, 8]


def test_equality_deletes_touch_older_files_only(table: Table) -> None:
    delete_equal(table, "d.parquet", {"id": [1, 15, 25]}, [1])
    table.append(rows_of(20, 10))
    table.append(rows_of(0, 2))
    delete_equal(table, "e.parquet", {"id": [0, 26]}, [1])
    kept = sorted([*without(0, 1, 15), *range(20, 26), 27, 28, 29, 1])
    assert ids(formatkit.scan(table)) == kept
    assert ids(formatkit.scan(table, threads=1)) == kept


@pytest.mark.parametrize(
    "where", ["id >= 3 and id < 13", "name is null", "score > 4.0 or id = 2", "name = 'ada'", "id = 4", "id != 4"]
)
@pytest.mark.parametrize("select", [("id",), ("id", "_pos", "_file"), ("id", "name")])
def test_filters_and_deletes_do_not_disturb_each_other(table: Table, where: str, select: tuple[str, ...]) -> None:
    plain = ids(formatkit.scan(table, where))
    one, other = locations(table)
    delete_at(table, "d.parquet", {one: [4, 6], other: [1, 8]})
    delete_equal(table, "e.parquet", {"score": [2.5]}, [3])
    assert ids(formatkit.scan(table, where, select)) == [n for n in plain if n not in (4, 5, 6, 11, 18)]


def test_a_column_that_was_dropped_still_tells_deleted_rows(table: Table) -> None:
    delete_equal(table, "d.parquet", {"name": ["ada"]}, [2])
    with table.update_schema() as update:
        update.delete_column("name")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    assert ids(formatkit.scan(table)) == [n for n in range(20) if NAMES[n % 4] != "ada"]


def test_equality_deletes_without_ids_need_a_name_mapping_or_a_word(table: Table) -> None:
    location = write_rows(table, "d.parquet", pa.table({"id": [3, 12]}))
    facts: dict[str, Any] = {"content": DataFileContent.EQUALITY_DELETES, "equality_ids": [1]}
    append_delete_files(table, data_file(table, location, 2, **facts))
    with pytest.raises(MissingFieldIdsError, match=r"d\.parquet"):
        formatkit.scan(table).to_arrow()
    assert ids(formatkit.scan(table, missing_ids="by-name")) == without(3, 12)


def test_deletion_vectors_are_read_from_a_file_of_many(table: Table) -> None:
    scan, (one, other) = formatkit.scan(table), locations(table)
    found = vectors(table, "d.puffin", {one: [0, 9, 2**33], other: [5]}, sequence_number=9)
    of = {each.referenced_data_file: each for each in found}
    deleted = scan.of_tasks(replace(task, deletes=(of[task.location],)) for task in scan.tasks)
    assert ids(deleted) == without(0, 9, 15)
    assert deleted.explain().to_dict()["deletes"] == {"deletion vectors": 2}


@pytest.mark.parametrize("by", [-40, -1, 1, 100_000])
def test_a_file_of_deletion_vectors_may_have_another_length_than_metadata_say(table: Table, by: int) -> None:
    scan, (one, other) = formatkit.scan(table), locations(table)
    found = vectors(table, "d.puffin", {one: [0, 9], other: [5]}, sequence_number=9)
    of = {each.referenced_data_file: replace(each, size_bytes=each.size_bytes + by) for each in found}
    deleted = scan.of_tasks(replace(task, deletes=(of[task.location],)) for task in scan.tasks)
    assert ids(deleted) == without(0, 9, 15)


def test_a_deletion_vector_in_an_encrypted_file_is_refused(table: Table) -> None:
    scan, (one, _) = formatkit.scan(table, "id = 0"), locations(table)
    (vector,) = vectors(table, "d.puffin", {one: [0]}, sequence_number=9)
    local_path(vector.location).write_bytes(b"AGS1" + bytes(vector.size_bytes - 4))
    (task,) = scan.tasks
    with pytest.raises(UnsupportedError, match=r"d\.puffin is encrypted"):
        scan.of_tasks([replace(task, deletes=(replace(vector, has_key=True),))]).to_arrow()


def test_a_deletion_vector_of_another_data_file_is_refused(table: Table) -> None:
    scan, (one, other) = formatkit.scan(table), locations(table)
    of = vectors(table, "d.puffin", {one: [0], other: [5]}, sequence_number=9)
    swapped = [replace(task, deletes=(of[task.location == one],)) for task in scan.tasks]
    with pytest.raises(CorruptFileError, match="belongs to"):
        scan.of_tasks(swapped).to_arrow()


def marked(table: Table) -> Table:
    one, _ = locations(table)
    delete_at(table, "d.parquet", {one: [3, 4]})
    return delete_equal(table, "e.parquet", {"id": [4, 11]}, [1])


@pytest.mark.parametrize("select", [("id", "_deleted"), ("_deleted", "id"), ("_deleted", "_pos", "id")])
def test_deleted_rows_are_marked_where_the_mark_is_selected(table: Table, select: tuple[str, ...]) -> None:
    scan = formatkit.scan(marked(table), select=select)
    assert ids(scan) == list(range(20))
    assert sorted(row["id"] for row in scan.to_arrow().to_pylist() if row["_deleted"]) == [3, 4, 11]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("_deleted = true", [3, 4, 11]),
        ("_deleted = false", without(3, 4, 11)),
        ("_deleted != true and id < 5", [0, 1, 2]),
        ("_deleted = true and id > 3", [4, 11]),
        ("_deleted = true or id >= 18", [3, 4, 11, 18, 19]),
        ("_deleted = true or id >= 0", list(range(20))),
        ("_deleted = true and id = 19", []),
        ("_deleted is null", []),
    ],
)
def test_deleted_rows_can_be_filtered_for(table: Table, where: str, found: list[int]) -> None:
    assert ids(formatkit.scan(marked(table), where, ("id",))) == found


def test_without_deletes_a_filter_for_deleted_rows_reads_nothing(table: Table) -> None:
    assert formatkit.scan(table, "_deleted = true").tasks == ()
    assert ids(formatkit.scan(table, "_deleted = false")) == list(range(20))


@pytest.mark.parametrize("limit", [0, 1, 5, 11, 17, 30])
def test_a_limit_counts_the_rows_that_are_left(table: Table, limit: int) -> None:
    scan = formatkit.scan(marked(table), limit=limit)
    assert scan.to_arrow().num_rows == min(limit, 17) == scan.count()
    scan = formatkit.scan(table, select=("id", "_deleted"), limit=limit)
    assert scan.to_arrow().num_rows == min(limit, 20) == scan.count()


def test_counting_opens_no_data_file_where_positions_tell(table: Table) -> None:
    one, other = locations(table)
    delete_at(table, "d.parquet", {one: [3, 4, 99, -1], other: [0, 0]})
    scan, marking = formatkit.scan(table), formatkit.scan(table, select="_deleted")
    for location in (one, other):
        local_path(location).unlink()
    assert scan.count() == 17
    assert marking.count() == 20
    remove_data_files(table)
    assert marking.count() == 20


def test_an_older_snapshot_has_its_own_deletes(table: Table) -> None:
    before = table.current_snapshot()
    marked(table)
    assert before is not None
    assert ids(formatkit.scan(table, snapshot_id=before.snapshot_id)) == list(range(20))


def test_tasks_with_deletes_survive_pickling_and_are_small(table: Table) -> None:
    scan = formatkit.scan(marked(table))
    packed = pickle.dumps(scan.tasks)
    assert pickle.loads(packed) == scan.tasks
    assert len(packed) < 4_000
    assert ids(scan.of_tasks(pickle.loads(packed))) == without(3, 4, 11)


def test_the_explanation_tells_of_deletes_and_what_was_read(table: Table) -> None:
    scan = formatkit.scan(marked(table))
    assert "deletes    position deletes 1, equality deletes 1: 4 rows" in str(scan.explain())
    scan.to_arrow()
    run = scan.explain().to_dict()["run"]
    assert (run["delete_files_read"], run["delete_rows_read"], run["rows_deleted"]) == (2, 4, 3)


def test_deletes_that_cannot_concern_the_filter_are_not_read(table: Table) -> None:
    bounds: dict[str, Any] = {name: {1: (7).to_bytes(8, "little")} for name in ("lower_bounds", "upper_bounds")}
    counts: dict[str, Any] = {"value_counts": {1: 1}, "null_value_counts": {1: 0}}
    delete_equal(table, "d.parquet", {"id": [7]}, [1], **bounds, **counts)
    assert {bool(task.deletes) for task in formatkit.scan(table).tasks} == {True, False}
    assert not formatkit.scan(table, "id < 6").tasks[0].deletes
    assert ids(formatkit.scan(table, "id < 9")) == [0, 1, 2, 3, 4, 5, 6, 8]


def test_a_delete_file_in_a_format_that_is_not_installed_shows_while_planning(table: Table) -> None:
    location = write_rows(table, "d.parquet", pa.table({"id": [1]}))
    facts: dict[str, Any] = {"content": DataFileContent.POSITION_DELETES, "file_format": "ROT13"}
    append_delete_files(table, data_file(table, location, 1, **facts))
    with pytest.raises(FormatNotRegisteredError, match=r"d\.parquet.*rot13"):
        formatkit.scan(table)


def test_a_position_that_is_null_is_an_error_that_names_the_file(table: Table) -> None:
    one, _ = locations(table)
    location = write_rows(table, "d.parquet", pa.table({"file_path": [one], "pos": pa.array([None], pa.int64())}))
    append_delete_files(table, data_file(table, location, 1, content=DataFileContent.POSITION_DELETES))
    with pytest.raises(InvalidDataError, match=r"d\.parquet.*pos"):
        formatkit.scan(table).to_arrow()


def test_deletes_are_applied_to_frames_too(table: Table) -> None:
    scan: Scan[pl.DataFrame] = formatkit.scan(marked(table), "id < 15", ("id",), batch_type=pl.DataFrame)
    assert sorted(pl.concat(scan.to_batches())["id"].to_list()) == [n for n in range(15) if n not in (3, 4, 11)]
    marks: Scan[pl.DataFrame] = formatkit.scan(table, select=("_deleted", "id"), batch_type=pl.DataFrame)
    frame = pl.concat(marks.to_batches())
    assert sorted(frame.filter("_deleted")["id"].to_list()) == [3, 4, 11]


def test_parts_of_a_file_are_read_side_by_side_with_deletes(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.large", schema=columns(id=pa.int64(), noise=pa.float64()))
    noise = np.random.default_rng(0).random(600_000)
    with created.transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-limit": "50000", "write.parquet.page-row-limit": "5000"})
    created.append(pa.table({"id": np.arange(600_000), "noise": noise}))
    (location,) = {task.location for task in formatkit.scan(created).tasks}
    deleted = {int(each) for each in np.random.default_rng(1).integers(0, 600_000, 3_000)}
    keys = {int(each) for each in np.random.default_rng(2).integers(0, 600_000, 3_000)}
    delete_at(created, "d.parquet", {location: deleted})
    delete_equal(created, "e.parquet", {"id": sorted(keys)}, [1])
    scan = formatkit.scan(created, threads=4)
    assert len(scan.tasks) > 1
    kept = np.setdiff1d(np.arange(600_000), sorted(deleted | keys))
    assert scan.to_arrow()["id"].to_numpy().tolist() == kept.tolist()
    assert scan.explain().to_dict()["run"]["delete_files_read"] == 2
    some = formatkit.scan(created, "id >= 123456 and id < 130000", threads=4).to_arrow()["id"].to_numpy()
    assert some.tolist() == kept[(kept >= 123_456) & (kept < 130_000)].tolist()
