"""Buckets that are read elsewhere."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import ConfigurationError, PluginLoadError, UnsupportedError
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.registry import FormatRegistry, default_registry
from formatkit.scan.bucket_reader import BucketReader
from formatkit.scan.sources import TableFiles
from support.guarded_io import PASSWORD, GuardedIO
from support.iceberg_tables import columns

SCHEMA = columns(id=pa.int64(), name=pa.string())

READ_ELSEWHERE = """
import pickle, sys
reader, buckets = pickle.load(sys.stdin.buffer)
found = []
for bucket in buckets:
    with reader.batches(bucket) as batches:
        found.append([row for batch in batches for row in batch.to_pylist()])
sys.stdout.buffer.write(pickle.dumps(found))
"""


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    created = catalog.create_table("db.people", schema=SCHEMA)
    for first in (0, 10, 20):
        ids = list(range(first, first + 10))
        created.append(pa.table([ids, [f"n{each}" for each in ids]], schema=SCHEMA))
    return created


def read_elsewhere(*things: Any) -> Any:
    support = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", READ_ELSEWHERE],
        input=pickle.dumps(things),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": support},
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


def travelled(reader: BucketReader[Any]) -> BucketReader[Any]:
    found: BucketReader[Any] = pickle.loads(pickle.dumps(reader))
    return found


def test_another_process_reads_what_this_one_would_with_all_settings(table: Table) -> None:
    table.io = GuardedIO({**table.io.properties, PASSWORD: "sesame"})
    scan = formatkit.scan(
        table, "id > 3 and id not in (7, 8)", select=["name", "_file", "_pos"], batch_rows=2, dictionary_columns="name"
    )
    buckets = scan.buckets(2)
    found = read_elsewhere(scan.bucket_reader(), list(buckets))
    assert [row for bucket in read_elsewhere(scan.bucket_reader(), list(scan.buckets(1))) for row in bucket] == (
        scan.to_arrow().to_pylist()
    )
    assert sum(map(len, found)) == scan.count()
    reader = travelled(scan.bucket_reader())
    assert reader.schema == scan.schema
    assert reader.arrow_schema == scan.arrow_schema
    with reader.batches(buckets[0]) as batches:
        assert {batch.num_rows for batch in batches} <= {1, 2}


def test_a_process_builds_each_file_io_once(table: Table) -> None:
    reader = formatkit.scan(table).bucket_reader()
    first, second = travelled(reader), travelled(reader)
    assert first.reader.open_source.io is second.reader.open_source.io  # type: ignore[attr-defined]


def test_buckets_of_another_scan_are_refused(table: Table) -> None:
    scan = formatkit.scan(table, "id > 3")
    [bucket] = scan.buckets(1)
    others = [
        formatkit.scan(table),
        formatkit.scan(table, "id > 4"),
        formatkit.scan(table, "id > 3", select="id"),
        formatkit.scan(table, "id > 3", limit=1),
        formatkit.scan(table, "id > 3", snapshot_id=table.snapshots()[0].snapshot_id),
    ]
    for other in others:
        with pytest.raises(ConfigurationError, match=f"bucket 0 is of scan {bucket.fingerprint}"):
            other.bucket_reader().batches(bucket)


@pytest.mark.parametrize("where", ["name in ('n1', 'n2', 'n3')", "id < 5 or id in (7, 8)", None])
def test_the_same_scan_planned_again_reads_the_same_buckets(table: Table, where: str | None) -> None:
    [bucket] = formatkit.scan(table, where).buckets(1)
    again = formatkit.scan(table, where)
    with again.bucket_reader().batches(bucket) as batches:
        assert sum(batch.num_rows for batch in batches) == again.count()


def test_readers_count_into_what_they_are_given(table: Table) -> None:
    counters: Counter[str] = Counter()
    scan = formatkit.scan(table)
    for bucket in scan.buckets(2):
        with scan.bucket_reader(batch_rows=4, threads=1).batches(bucket, counters) as batches:
            assert {batch.num_rows for batch in batches} <= {2, 4}
    assert counters["files_opened"] == 3


def test_credentials_are_not_printed(table: Table) -> None:
    table.io = GuardedIO({PASSWORD: "sesame"})
    assert "sesame" not in repr(formatkit.scan(table).bucket_reader())


def test_a_plugin_that_is_installed_is_found_by_its_entry_point(table: Table) -> None:
    reader = formatkit.scan(table).bucket_reader()
    found = travelled(reader).reader.plugins["parquet"]
    assert found is default_registry().plugin("parquet", pa.RecordBatch)


class OwnParquet(ParquetFormat):
    """A plugin that was registered by hand."""


def test_a_plugin_that_was_registered_by_hand_travels_itself(table: Table) -> None:
    registry = FormatRegistry()
    registry.register(OwnParquet())
    registry.register_batch(default_registry().batches(pa.RecordBatch))
    reader = formatkit.scan(table, registry=registry).bucket_reader()
    plugins = travelled(reader).reader.plugins
    assert [type(plugin).__name__ for plugin in plugins.values()] == ["OwnParquet"]


def test_a_plugin_that_cannot_travel_is_named(table: Table) -> None:
    class Local(ParquetFormat):
        """Only this function knows it."""

    registry = FormatRegistry()
    registry.register(Local())
    registry.register_batch(default_registry().batches(pa.RecordBatch))
    reader = formatkit.scan(table, registry=registry).bucket_reader()
    with pytest.raises(UnsupportedError, match=r"Local cannot be sent to another process"):
        pickle.dumps(reader)


def test_a_file_io_that_cannot_be_imported_is_named(table: Table) -> None:
    class Local(GuardedIO):
        """Only this function knows it."""

    with pytest.raises(UnsupportedError, match="put the class of this FileIO into a module"):
        pickle.dumps(TableFiles(Local({})))
    rebuild, (name, properties) = TableFiles(GuardedIO({PASSWORD: "x"})).__reduce__()
    with pytest.raises(PluginLoadError, match="which this process cannot import"):
        rebuild(name.replace("GuardedIO", "LostIO"), properties)


def test_a_single_file_is_opened_elsewhere_by_its_location(table: Table) -> None:
    location = formatkit.scan(table).tasks[0].location
    scan = formatkit.read_file(location)
    [bucket] = scan.buckets(1)
    with travelled(scan.bucket_reader()).batches(bucket) as batches:
        assert [row for batch in batches for row in batch.to_pylist()] == scan.to_arrow().to_pylist()


def test_bytes_in_memory_are_not_sent_to_other_processes(table: Table) -> None:
    location = formatkit.scan(table).tasks[0].location
    content = Path(location.removeprefix("file://")).read_bytes()
    with pytest.raises(UnsupportedError, match="give the file's location"):
        pickle.dumps(formatkit.read_file(content).bucket_reader())
