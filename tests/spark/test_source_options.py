"""What the options of the data source mean, and what is said about wrong ones."""

from __future__ import annotations

from typing import Any

import pytest

from formatkit.errors import ConfigurationError
from formatkit.scan.incremental.snapshots import NonAppends
from formatkit.spark.options import StreamOptions, Version, parse_options

MOMENT = 1_769_860_800_123


@pytest.mark.parametrize("name", ["snapshot-id", "snapshot_id", "snapshotid", "SNAPSHOT-ID"])
def test_names_are_known_however_they_are_spelt(name: str) -> None:
    assert parse_options({"path": "db.t", name: "7"}).version == Version("snapshot", 7, "snapshot-id")


@pytest.mark.parametrize(
    ("name", "value", "kind", "meant"),
    [
        ("as-of-timestamp", str(MOMENT), "moment", MOMENT),
        ("timestampasof", "2026-01-31T12:00:00.123Z", "moment", MOMENT),
        ("timestampasof", "2026-01-31 14:00:00.123999+02:00", "moment", MOMENT),
        ("versionasof", "12", "snapshot", 12),
        ("versionasof", "v12", "name", "v12"),
        ("branch", "audit", "branch", "audit"),
        ("tag", "12", "tag", "12"),
    ],
)
def test_states_of_a_table_are_said_in_many_ways(name: str, value: str, kind: str, meant: Any) -> None:
    version = parse_options({"path": "db.t", name: value}).version
    assert version is not None
    assert (version.kind, version.value) == (kind, meant)


def test_columns_have_commas_between_them_and_backticks_around() -> None:
    options = {"path": "db.t", "columns": "a, b.c ,`d, e`", "metadata-columns": "_file"}
    assert parse_options(options).scan_arguments["select"] == ("a", "b.c", "d, e", "_file")


def test_metadata_columns_come_after_all_others() -> None:
    assert parse_options({"path": "db.t", "metadata-columns": "_pos"}).scan_arguments["select"] == ("*", "_pos")


def test_everything_else_goes_where_it_belongs() -> None:
    given = {
        "path": "db.t",
        "catalog": "c",
        "catalog.uri": "u",
        "catalog.s3.region": "r",
        "filter": "a > 1",
        "limit": "3",
        "case-sensitive": "False",
        "missing-ids": "by-name",
        "nanoseconds": "floor",
        "batch-size": "100",
        "threads": "2",
        "split-size": "1000",
        "file-open-cost": "0",
        "read.avro.decoder": "numba",
        "lookback": "10",
        "vectorization-enabled": "true",
    }
    options = parse_options(given)
    assert (options.path, options.catalog) == ("db.t", "c")
    assert options.catalog_properties == {"uri": "u", "s3.region": "r"}
    assert options.scan_arguments == {
        "where": "a > 1",
        "select": ("*",),
        "limit": 3,
        "case_sensitive": False,
        "missing_ids": "by-name",
        "batch_rows": 100,
        "threads": 2,
        "properties": {"read.avro.decoder": "numba"},
    }
    assert (options.nanoseconds, options.split_bytes, options.open_cost, options.buckets) == ("floor", 1000, 0, None)
    assert "u" not in repr(options).removeprefix("<options")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no table is named"),
        ({"path": " "}, "no table is named"),
        ({"path": "t", "snapshot-id": "1", "versionasof": "1"}, "snapshot-id and versionAsOf each choose a state"),
        ({"path": "t", "tag": "1", "branch": "1", "as-of-timestamp": "1"}, "as-of-timestamp and branch and tag"),
        ({"path": "t", "batch-size": "1", "batch_size": "2"}, "batch-size and batch_size are the same one"),
        ({"path": "t", "snapshot-ids": "1"}, r"no option snapshot-ids \(did you mean snapshot-id\?\); it has: path"),
        ({"path": "t", "xyzzy": "1"}, "no option xyzzy; it has: path, .*catalog"),
        ({"path": "t", "snapshot-id": "main"}, "snapshot-id is 'main', which is no whole number"),
        ({"path": "t", "limit": "-1"}, "limit must be at least 0, not -1"),
        ({"path": "t", "buckets": "0"}, "buckets must be at least 1, not 0"),
        ({"path": "t", "buckets": "2", "split-size": "1"}, "buckets or split-size, not both"),
        ({"path": "t", "case-sensitive": "no"}, "case-sensitive must be true or false, not 'no'"),
        ({"path": "t", "nanoseconds": "round"}, "nanoseconds must be error, floor or integer, not 'round'"),
        ({"path": "t", "timestampasof": "yesterday"}, "'yesterday', which is no moment like"),
        ({"path": "t", "timestampasof": "2026-01-31"}, "has no time zone"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_options(given)


def test_ranges_of_snapshots_are_arguments_of_the_scan() -> None:
    given = {"path": "t", "start-snapshot-id": "1", "end-timestamp": "2", "overwrite-snapshots": "added-files"}
    found = parse_options({**given, "branch": "audit"}).scan_arguments
    assert found == {
        "select": ("*",),
        "start_snapshot_id": 1,
        "end_timestamp": 2,
        "overwrite_snapshots": "added-files",
        "delete_snapshots": "error",
    }


def test_what_streams_are_told_is_kept_apart() -> None:
    given = {
        "path": "t",
        "startingOffsets": "latest",
        "streaming-max-rows-per-micro-batch": "1",
        "streaming-max-files-per-micro-batch": "2",
        "streaming-max-bytes-per-micro-batch": "3",
        "streaming-skip-delete-snapshots": "true",
        "streaming-read-added-files": "true",
        "limit": "4",
    }
    options = parse_options(given)
    assert options.stream == StreamOptions(
        from_latest=True,
        max_rows=1,
        max_files=2,
        max_bytes=3,
        non_appends=NonAppends("added-files", "skip"),
        misplaced=("limit",),
    )
    assert options.only_streams[0] == "starting-offsets"
    assert options.scan_arguments == {"select": ("*",), "limit": 4}
