"""Scans in buckets."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, UUIDType

import formatkit
from formatkit.contract.options import Split
from formatkit.errors import ColumnNotFoundError, ConfigurationError
from formatkit.scan import DeleteFile, FileTask, Scan
from formatkit.scan.buckets import Bucket, Buckets, HashPartitioning, SortColumn, UnknownPartitioning, make_buckets
from formatkit.scan.spark_hash import hash_partitions
from formatkit.scan.tasks import DELETION_VECTORS, POSITION_DELETES
from support.deletes import delete_at, delete_equal
from support.iceberg_tables import append_data_files, data_file, with_ids, write_rows

MEBIBYTE = 1 << 20
SCHEMA = Schema(
    NestedField(1, "country", StringType()), NestedField(2, "size", LongType()), NestedField(3, "score", DoubleType())
)
COUNTRIES = ["de", "fr", None, "日本", "br"]


def by_country(*more: PartitionField) -> PartitionSpec:
    return PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "country"), *more)


def rows_of(first: int, count: int = 20) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"country": [COUNTRIES[n % 5] for n in numbers], "size": list(numbers), "score": [n / 2 for n in numbers]}
    )


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    created = catalog.create_table("db.sales", SCHEMA, partition_spec=by_country())
    for first in (0, 20, 40):
        created.append(rows_of(first))
    return created


def read(scan: Scan, bucket: Bucket) -> list[dict[str, Any]]:
    with scan.bucket_reader().batches(bucket) as batches:
        return [row for batch in batches for row in batch.to_pylist()]


def read_all(scan: Scan, buckets: Buckets) -> Counter[str]:
    return Counter(repr(row) for bucket in buckets for row in read(scan, bucket))


def file(name: str, length: int | None, *offsets: int, **facts: Any) -> FileTask:
    return FileTask(
        location=name, file_format="parquet", size_bytes=length, row_count=1000, split_offsets=offsets, **facts
    )


def make(tasks: list[FileTask], target: int, **options: Any) -> Buckets:
    given = {"schema": SCHEMA, "table_schema": SCHEMA, "splittable": {"parquet"}, "fingerprint": "f", "sort_orders": {}}
    return make_buckets(tasks, target, **{**given, **options})


@pytest.mark.parametrize("where", [None, "size > 7 and size != 30", "country = 'de'", "size < 0"])
def test_one_bucket_is_the_single_stream(table: Table, where: str | None) -> None:
    scan = formatkit.scan(table, where, batch_rows=3)
    [bucket] = scan.buckets(1)
    with scan.to_batches() as stream, scan.bucket_reader().batches(bucket) as batches:
        assert list(batches) == list(stream)


@pytest.mark.parametrize("by", [None, "country", "hash"])
@pytest.mark.parametrize("target", [1, 2, 3, 7, 100])
def test_every_row_is_in_exactly_one_bucket(table: Table, target: int, by: str | None) -> None:
    scan = formatkit.scan(table, "size != 11")
    buckets = scan.buckets(target, by=by)
    expected = Counter(repr(row) for row in scan.to_arrow().to_pylist())
    assert read_all(scan, buckets) == expected
    assert [bucket.index for bucket in buckets] == list(range(len(buckets)))
    assert len(buckets) == (target if by else min(target, len(scan.tasks)))
    assert sum(bucket.bytes for bucket in buckets) == buckets.bytes
    assert buckets.rows == 60


@pytest.mark.parametrize("target", [1, 4])
def test_an_empty_table_has_one_empty_bucket(catalog: InMemoryCatalog, target: int) -> None:
    scan = formatkit.scan(catalog.create_table("db.empty", SCHEMA))
    [bucket] = scan.buckets(target)
    assert (bucket.tasks, bucket.bytes, bucket.rows) == ((), 0, 0)
    assert read(scan, bucket) == []


def test_deletes_are_carried_into_buckets(table: Table) -> None:
    french = formatkit.scan(table, "country = 'fr'").tasks
    partition = Record("fr")
    table = delete_at(table, "positions.parquet", {french[0].location: [0]}, partition=partition)
    table = delete_equal(table, "keys.parquet", {"size": [26, 31]}, [2], partition=partition)
    scan = formatkit.scan(table)
    expected = Counter(repr(row) for row in scan.to_arrow().to_pylist())
    assert expected.total() == 57
    for target in (1, 3, 50):
        assert read_all(scan, pickle.loads(pickle.dumps(scan.buckets(target)))) == expected


def test_the_limit_is_that_of_each_bucket(table: Table) -> None:
    scan = formatkit.scan(table, limit=3)
    assert [len(read(scan, bucket)) for bucket in scan.buckets(1)] == [3]
    assert scan.limit == 3


def test_buckets_are_balanced_by_bytes() -> None:
    sizes = [100, 90, 80, 70, 60, 50, 40, 30, 20, 10]
    buckets = make([file(f"f{n}", size * MEBIBYTE) for n, size in enumerate(sizes)], 3)
    loads = [bucket.bytes // MEBIBYTE for bucket in buckets]
    assert sum(loads) == 550
    assert max(loads) - min(loads) <= 10


def test_deletes_count_as_work() -> None:
    def delete(kind: str, **facts: Any) -> DeleteFile:
        return DeleteFile(
            kind=kind,
            location="d",
            file_format="parquet",
            sequence_number=1,
            row_count=1,
            size_bytes=90 * MEBIBYTE,
            **facts,
        )

    heavy = file("heavy", 10 * MEBIBYTE, deletes=(delete(POSITION_DELETES),))
    vector = file("vector", 10 * MEBIBYTE, deletes=(delete(DELETION_VECTORS, content_size=100),))
    plain = [file(f"f{n}", 10 * MEBIBYTE) for n in range(9)]
    [first, second] = make([heavy, vector, *plain], 2)
    assert {len(first.tasks), len(second.tasks)} == {1, 10}


def test_small_files_cost_their_opening() -> None:
    tasks = [file("big", 40 * MEBIBYTE), *(file(f"f{n}", 10) for n in range(10))]
    assert sorted(len(bucket.tasks) for bucket in make(tasks, 2)) == [1, 10]
    assert sorted(len(bucket.tasks) for bucket in make(tasks, 2, open_cost=80 * MEBIBYTE)) == [5, 6]


def test_large_files_are_cut_at_their_offsets_and_cover_every_byte_once() -> None:
    offsets = range(4, 100 * MEBIBYTE, 10 * MEBIBYTE)
    buckets = make([file("big", 100 * MEBIBYTE, *offsets), file("small", MEBIBYTE)], 4)
    parts = sorted(
        (task.split.start, task.split.end)
        for bucket in buckets
        for task in bucket.tasks
        if task.location == "big" and task.split is not None
    )
    assert parts[0][0] == 0
    assert parts[-1][1] == 100 * MEBIBYTE
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    assert len(buckets) == 4
    assert max(bucket.bytes for bucket in buckets) <= 31 * MEBIBYTE
    assert all(len(task.split_offsets) <= 1 for bucket in buckets for task in bucket.tasks)


def test_the_size_of_parts_can_be_given() -> None:
    offsets = range(4, 100 * MEBIBYTE, 10 * MEBIBYTE)
    buckets = make([file("big", 100 * MEBIBYTE, *offsets)], 50, split_bytes=20 * MEBIBYTE)
    assert len(buckets) == 5


def test_parts_of_a_file_that_meet_again_are_one_part() -> None:
    halves = [
        file("f", 40 * MEBIBYTE, 4, split=Split(0, 20 * MEBIBYTE)),
        file("f", 40 * MEBIBYTE, 20 * MEBIBYTE, split=Split(20 * MEBIBYTE, 20 * MEBIBYTE)),
    ]
    others = [file(name, 100 * MEBIBYTE) for name in ("a", "b")]
    contents = [[(task.location, task.split) for task in bucket.tasks] for bucket in make([*halves, *others], 3)]
    assert contents == [[("f", None)], [("a", None)], [("b", None)]]


@pytest.mark.parametrize(("option", "value"), [("target", 0), ("open_cost", -1), ("split_bytes", 0)])
def test_options_that_make_no_sense_are_refused(option: str, value: int) -> None:
    with pytest.raises(ConfigurationError, match=option):
        make([], **{"target": 2, option: value})


def test_hash_buckets_hold_the_rows_that_spark_would_send_there(table: Table) -> None:
    scan = formatkit.scan(table)
    buckets = scan.buckets(4, by="country")
    assert buckets.partitioning == HashPartitioning(("country",), 4)
    assert str(buckets.partitioning) in buckets.explain()
    for bucket in buckets:
        found = [(row["country"],) for row in read(scan, bucket)]
        assert set(hash_partitions(found, [StringType()], 4)) <= {bucket.index}


@pytest.mark.parametrize(
    ("by", "select", "reason"),
    [
        ("size", ["*"], "size is no identity partition of spec 0"),
        ("country", ["size"], "country is not a column of the output"),
        (("country", "size"), ["*"], "size is no identity partition"),
        ("hash", ["size"], "no column of the output is an identity partition"),
    ],
)
def test_hash_partitioning_is_not_claimed_without_proof(table: Table, by: Any, select: list[str], reason: str) -> None:
    buckets = formatkit.scan(table, select=select).buckets(3, by=by)
    assert isinstance(buckets.partitioning, UnknownPartitioning)
    assert reason in buckets.partitioning.reason
    assert buckets.partitioning.reason in buckets.explain()


def test_a_name_that_the_table_lacks_is_an_error(table: Table) -> None:
    with pytest.raises(ColumnNotFoundError, match="contry"):
        formatkit.scan(table).buckets(3, by="contry")


def test_a_column_that_is_identity_in_every_spec_stays_a_key(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("size", BucketTransform(4), "size_bucket")
    formatkit.append(table, rows_of(60))
    scan = formatkit.scan(table.refresh())
    assert len({task.spec_id for task in scan.tasks}) == 2
    assert scan.buckets(3, by="country").partitioning.is_hash
    assert read_all(scan, scan.buckets(3, by="country")).total() == 80


def test_files_of_a_spec_without_the_column_forbid_hash_partitioning(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("country")
    table.append(rows_of(60))
    partitioning = formatkit.scan(table).buckets(3, by="country").partitioning
    assert isinstance(partitioning, UnknownPartitioning)
    assert "spec 1" in partitioning.reason
    # Files that the filter leaves out do not matter.
    assert formatkit.scan(table, "size < 60").buckets(3, by="country").partitioning.is_hash


def test_bucket_transforms_are_not_sparks_hash(catalog: InMemoryCatalog) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, BucketTransform(4), "size_bucket"))
    table = catalog.create_table("db.bucketed", SCHEMA, partition_spec=spec)
    formatkit.append(table, rows_of(0))
    assert not formatkit.scan(table.refresh()).buckets(4, by="size").partitioning.is_hash


def test_types_without_a_known_hash_are_no_keys() -> None:
    schema = Schema(NestedField(1, "u", UUIDType()))
    task = file("f", 1, partition_constants={1: b"0123456789abcdef"})
    partitioning = make([task], 2, by=("u",), schema=schema, table_schema=schema).partitioning
    assert str(partitioning) == "unknown: u is uuid, whose hash in Spark is not known"


def sorted_table(catalog: InMemoryCatalog, *sort_order_ids: int | None) -> Table:
    order = SortOrder(
        SortField(2, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),
        SortField(1, BucketTransform(4), SortDirection.ASC, NullOrder.NULLS_FIRST),
        order_id=1,
    )
    table = catalog.create_table("db.sorted", SCHEMA, sort_order=order)
    files = []
    for number, id_ in enumerate(sort_order_ids):
        location = write_rows(table, f"{number}.parquet", with_ids(table, rows_of(number * 20)))
        files.append(data_file(table, location, 20, sort_order_id=id_))
    return append_data_files(table, *files)


def test_an_order_is_declared_if_each_bucket_is_one_sorted_file(catalog: InMemoryCatalog) -> None:
    scan = formatkit.scan(sorted_table(catalog, 1, 1))
    expected = (SortColumn("size", ascending=False, nulls_first=False),)
    assert scan.buckets(2).ordering == expected
    assert "size desc nulls last" in scan.buckets(2).explain()
    assert scan.buckets(1).ordering == ()
    assert formatkit.scan(catalog.load_table("db.sorted"), select=["country"]).buckets(2).ordering == ()


@pytest.mark.parametrize("ids", [(1, None), (0, 0), (None, None), (7, 7)])
def test_files_that_say_nothing_about_their_order_forbid_one(catalog: InMemoryCatalog, ids: tuple[Any, ...]) -> None:
    assert formatkit.scan(sorted_table(catalog, *ids)).buckets(2).ordering == ()


def test_a_bucket_is_small_however_many_tasks_share_its_facts() -> None:
    constants, partition, residual = {1: "de"}, ("de",), AlwaysTrue()
    tasks = [
        file(f"n{n:06}", MEBIBYTE, 4, partition_constants=constants, partition=partition, residual=residual)
        for n in range(1000)
    ]
    [bucket] = make(tasks, 1)
    assert len(pickle.dumps(bucket)) / 1000 < 80
    assert pickle.loads(pickle.dumps(bucket)) == bucket
