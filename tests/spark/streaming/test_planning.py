"""Where streams begin, how far micro-batches go, and that the rows between two offsets stay the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table

import formatkit
from formatkit.errors import ConfigurationError, NonAppendSnapshotError, SnapshotExpiredError
from formatkit.scan.incremental.snapshots import NonAppends
from formatkit.scan.options import ScanOptions
from formatkit.scan.table import scan_files
from formatkit.spark.options import StreamOptions
from formatkit.spark.streaming.offsets import Offset
from formatkit.spark.streaming.planning import Limits, StreamPlanner
from support.streams import StreamTables, rows

NO_LIMITS = Limits()


def planner(table: Table) -> StreamPlanner:
    table.refresh()
    return StreamPlanner(table.metadata, table.io, table.current_snapshot())


def beginning(table: Table, **options: Any) -> Offset:
    return through_json(planner(table).beginning(StreamOptions(**options)))


def through_json(offset: Offset) -> Offset:
    """As a checkpoint gives it back."""
    return Offset.from_json(json.loads(json.dumps(offset.to_json())))


def ids_between(table: Table, start: Offset, end: Offset) -> list[int]:
    parts = planner(table).files(start, end)
    found: list[Any] = (
        scan_files(table, ScanOptions(batch_type=pa.RecordBatch), parts=parts).to_arrow()["id"].to_pylist()
    )
    return sorted(found)


def batches(
    table: Table, start: Offset, limits: Limits = NO_LIMITS, non_appends: NonAppends | None = None
) -> list[list[int]]:
    """The rows of all micro-batches from an offset on, each read by the offsets that a checkpoint would have."""
    found: list[list[int]] = []
    while True:
        end = planner(table).next(start, limits, non_appends or NonAppends())
        if end is start:
            return found
        end = through_json(end)
        found.append(ids_between(table, start, end))
        start = end


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), [[1, 2, 3, 4, 5, 6, 7]]),
        (Limits(files=2), [[1, 2], [3, 4], [5, 6, 7]]),
        (Limits(rows=3), [[1, 2, 3], [4, 5, 6], [7]]),
        (Limits(rows=4), [[1, 2, 3, 4], [5, 6, 7]]),
        (Limits(rows=1), [[1], [2], [3], [4], [5, 6], [7]]),
        (Limits(bytes=1), [[1], [2], [3], [4], [5, 6], [7]]),
        (Limits(files=3, rows=2), [[1, 2], [3, 4], [5, 6], [7]]),
    ],
)
def test_micro_batches_are_limited_by_rows_files_and_bytes(
    tables: StreamTables, limits: Limits, expected: list[list[int]]
) -> None:
    table = tables.new()
    tables.append_files(table, [rows(1), rows(2), rows(3)])
    tables.append_files(table, [rows(4), rows(5, 6), rows(7)])
    assert batches(table, beginning(table), limits) == expected


def test_streams_begin_where_they_are_told(tables: StreamTables) -> None:
    table = tables.new()
    first, second, third = tables.append(table, rows(1), rows(2), rows(3))
    moments = {each.snapshot_id: each.timestamp_ms for each in table.metadata.snapshots}
    assert batches(table, beginning(table)) == [[1, 2, 3]]
    assert batches(table, beginning(table, after_snapshot=first)) == [[2, 3]]
    assert batches(table, beginning(table, from_snapshot=second)) == [[2, 3]]
    assert batches(table, beginning(table, from_snapshot=third)) == [[3]]
    assert batches(table, beginning(table, from_timestamp=moments[third])) == [[3]]
    assert batches(table, beginning(table, from_timestamp=moments[second] + 1)) == [[3]]
    assert batches(table, beginning(table, from_timestamp=0)) == [[1, 2, 3]]
    latest = beginning(table, from_latest=True)
    future = beginning(table, from_timestamp=moments[third] + 1000)
    assert batches(table, latest) == batches(table, future) == []
    tables.append(table, rows(4))
    assert batches(table, latest) == batches(table, future) == [[4]]


def test_a_stream_of_an_empty_table_waits_for_its_first_snapshot(tables: StreamTables) -> None:
    table = tables.new()
    start = beginning(table)
    assert batches(table, start) == []
    tables.append(table, rows(1), rows(2))
    assert batches(table, start) == [[1, 2]]


def test_the_oldest_snapshot_is_read_whole_if_others_came_before_it(tables: StreamTables) -> None:
    table = tables.new(**{"format-version": "2"})
    first, second = tables.append(table, rows(1, 2), rows(3, 4))
    formatkit.delete(table, "id = 1")
    table.maintenance.expire_snapshots().by_ids([first, second]).commit()
    tables.append(table, rows(5))
    start = beginning(table)
    assert start.all_files
    assert batches(table, start) == [[2, 3, 4, 5]]
    assert sorted(batches(table, start, Limits(files=1)), key=len) == [[2], [5], [3, 4]]


@pytest.mark.parametrize("from_which", ["after_snapshot", "from_snapshot"])
def test_a_beginning_that_is_not_there_is_an_error(tables: StreamTables, from_which: str) -> None:
    table = tables.new()
    with pytest.raises(ConfigurationError, match="begin with snapshot 5, and the branch has: none"):
        beginning(table, **{from_which: 5})
    first, second = tables.append(table, rows(1), rows(2))
    table.maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(SnapshotExpiredError, match=f"begin with snapshot {first}.*has: {second}; it may have expired"):
        beginning(table, **{from_which: first})


def test_moments_before_what_is_left_of_the_history_are_an_error(tables: StreamTables) -> None:
    table = tables.new()
    first, *_ = tables.append(table, rows(1), rows(2))
    table.maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(SnapshotExpiredError, match="history of the table goes back to"):
        beginning(table, from_timestamp=5)


def test_compaction_changes_no_rows_between_offsets(tables: StreamTables) -> None:
    table = tables.new()
    start = beginning(table)
    tables.append(table, rows(1), rows(2), rows(3))
    middle = through_json(planner(table).next(start, Limits(files=2), NonAppends()))
    end = through_json(planner(table).next(middle, NO_LIMITS, NonAppends()))
    formatkit.rewrite(table)
    assert ids_between(table, start, middle) == [1, 2]
    assert ids_between(table, middle, end) == [3]
    # The compaction adds no rows, and is passed, so that what was before it may expire.
    after = planner(table).next(end, NO_LIMITS, NonAppends())
    assert (after.snapshot_id, after.complete) == (table.metadata.current_snapshot_id, True)
    assert ids_between(table, end, after) == []
    table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in table.metadata.snapshots[:-1]]).commit()
    tables.append(table, rows(4))
    assert batches(table, through_json(after)) == [[4]]


def test_rows_of_expired_snapshots_are_refused(tables: StreamTables) -> None:
    table = tables.new()
    start = beginning(table)
    first, second, third = tables.append(table, rows(1), rows(2), rows(3))
    cut = through_json(planner(table).next(start, Limits(files=1), NonAppends()))
    end = through_json(planner(table).next(start, NO_LIMITS, NonAppends()))
    assert (cut.snapshot_id, end.snapshot_id) == (first, third)
    table.maintenance.expire_snapshots().by_ids([first, second]).commit()
    with pytest.raises(SnapshotExpiredError, match="not all of them are there any more"):
        ids_between(table, start, end)
    with pytest.raises(SnapshotExpiredError, match="not all of them are there any more"):
        ids_between(table, cut, end)
    with pytest.raises(SnapshotExpiredError, match=f"up to snapshot {first} is to be read"):
        ids_between(table, start, cut)
    with pytest.raises(SnapshotExpiredError):
        planner(table).next(cut, NO_LIMITS, NonAppends())


def test_a_snapshot_that_expires_half_read_is_an_error(tables: StreamTables) -> None:
    table = tables.new()
    start = beginning(table)
    half = tables.append_files(table, [rows(1), rows(2)])
    middle = through_json(planner(table).next(start, Limits(files=1), NonAppends()))
    tables.append(table, rows(3))
    table.maintenance.expire_snapshots().by_id(half).commit()
    with pytest.raises(SnapshotExpiredError):
        planner(table).next(middle, NO_LIMITS, NonAppends())


def test_a_branch_that_was_rolled_back_is_an_error(tables: StreamTables) -> None:
    table = tables.new()
    first, second = tables.append(table, rows(1), rows(2))
    start = Offset(snapshot_id=second, complete=True)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    tables.append(table, rows(3))
    with pytest.raises(ConfigurationError, match=f"{second} is no ancestor of snapshot .*rolled back"):
        planner(table).next(start, NO_LIMITS, NonAppends())


def overwrite(table: Table) -> None:
    formatkit.overwrite(table, rows(8, 9), where="id = 1")


def delete(table: Table) -> None:
    table.delete("id = 2")


@pytest.mark.parametrize(
    ("change", "non_appends", "expected"),
    [
        (overwrite, NonAppends("skip", "error"), [[1, 2, 3]]),
        (overwrite, NonAppends("added-files", "error"), [[1, 2, 3, 8, 9]]),
        (delete, NonAppends("error", "skip"), [[1, 2, 3]]),
    ],
)
def test_other_snapshots_than_appends_are_read_as_one_is_told(
    tables: StreamTables, change: Callable[[Table], None], non_appends: NonAppends, expected: list[list[int]]
) -> None:
    table = tables.new()
    tables.append(table, rows(1), rows(2))
    start = beginning(table)
    change(table)
    snapshot = table.metadata.current_snapshot_id
    tables.append(table, rows(3))
    assert batches(table, start, non_appends=non_appends) == expected
    # What comes before the change is still read, and then it is an error.
    before = planner(table).next(start, NO_LIMITS, NonAppends())
    assert ids_between(table, start, before) == [1, 2]
    with pytest.raises(NonAppendSnapshotError, match=f"snapshot {snapshot}"):
        planner(table).next(before, NO_LIMITS, NonAppends())


def test_a_micro_batch_is_done_again_as_it_was_done_first_whatever_options_say_now(tables: StreamTables) -> None:
    table = tables.new()
    tables.append(table, rows(1))
    overwrite(table)
    start = beginning(table)
    end = through_json(planner(table).next(start, NO_LIMITS, NonAppends("added-files", "error")))
    assert end.non_appends == NonAppends("added-files", "error")
    assert ids_between(table, start, end) == [1, 8, 9]


def test_the_first_micro_batch_is_done_again_from_where_it_began(tables: StreamTables) -> None:
    table = tables.new()
    tables.append(table, rows(1))
    start = beginning(table, from_latest=True)
    tables.append(table, rows(2))
    end = through_json(planner(table).next(start, NO_LIMITS, NonAppends()))
    # The driver died before the batch was committed, and Spark asks again where the stream begins.
    tables.append(table, rows(3))
    again = beginning(table, from_latest=True)
    assert again != start
    assert ids_between(table, again, end) == [2]
    assert batches(table, end) == [[3]]


@pytest.mark.parametrize("kept", [{}, {"version": 2}, {"version": 1, "snapshot-id": "x"}, {"version": 1, "offset": 5}])
def test_offsets_of_others_are_refused(kept: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="the checkpoint has an offset"):
        Offset.from_json(kept)


@pytest.mark.parametrize("seed", range(6))
def test_every_row_is_in_one_micro_batch_of_any_history_and_stays_there(tables: StreamTables, seed: int) -> None:
    choose = random.Random(seed)
    table = tables.new(**{"commit.manifest.min-count-to-merge": str(choose.choice([2, 100]))})
    appended: list[int] = []
    read: list[tuple[Offset, Offset, list[int]]] = []
    start = beginning(table)

    def read_some(limits: Limits) -> bool:
        nonlocal start
        end = planner(table).next(start, limits, NonAppends("skip", "skip"))
        if end is start:
            return False
        end = through_json(end)
        read.append((start, end, ids_between(table, start, end)))
        start = end
        return True

    for _ in range(14):
        match choose.choice(["append", "append", "compact", "delete", "read", "read"]):
            case "append":
                parts = [[len(appended) + 10 * i + j for j in range(3)] for i in range(1, choose.randint(2, 4))]
                parts = [[id_ + 1000 * len(appended) for id_ in part] for part in parts]
                appended += [id_ for part in parts for id_ in part]
                tables.append_files(table.refresh(), [rows(*part) for part in parts])
            case "compact":
                formatkit.rewrite(table.refresh())
            case "delete" if appended:
                formatkit.delete(table.refresh(), f"id = {choose.choice(appended)}")
            case "read":
                read_some(choose.choice([NO_LIMITS, Limits(files=1), Limits(rows=7), Limits(bytes=1500)]))
    while read_some(Limits(files=2)):
        pass
    assert [id_ for _, _, ids in read for id_ in sorted(ids)] == appended
    for begin, end, ids in read:
        assert ids_between(table, begin, end) == ids
