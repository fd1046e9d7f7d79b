"""With `read.verify-skipping`, metadata and statistics that contradict the rows are an error and never other rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import Or
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

import formatkit
from formatkit.batches.arrow import ArrowBatch
from formatkit.errors import ConfigurationError, MisleadingStatisticsError
from formatkit.registry import FormatRegistry, default_registry
from support.filters import EqualTo
from support.iceberg_tables import local_path
from support.lies import (
    LyingFormat,
    change_entries,
    change_lines,
    long_bound,
    narrow_orc,
    narrow_parquet,
    set_bound,
)
from support.operated_tables import delete_by_equality, filled_table
from support.written_tables import ALL_FORMATS, new_table, spec

VERIFY = {"read.verify-skipping": "true"}
ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "part": ["a"] * 50 + ["b"] * 50})
COLUMNS = (NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
SMALL = {"write.parquet.row-group-limit": "20", "write.orc.stripe-size-bytes": "4096"}

Lie = Callable[[Table], None]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    yield catalog
    catalog.close()


def lying_table(catalog: SqlCatalog, lie: Lie, file_format: str = "parquet", **properties: str) -> Table:
    table = new_table(
        catalog,
        *COLUMNS,
        partitions=spec((2, IdentityTransform())),
        properties={"format-version": "2", **SMALL, **properties},
    )
    formatkit.append(table, ROWS, file_format=file_format)
    lie(table)
    return table


def upper_of_ids(table: Table) -> None:
    def narrow(entry: dict[str, Any]) -> None:
        lower = next(pair["value"] for pair in entry["data_file"]["lower_bounds"] if pair["key"] == 1)
        set_bound(entry, "upper_bounds", 1, long_bound(int.from_bytes(lower, "little") + 10))

    change_entries(table, narrow)


def lower_of_ids(table: Table) -> None:
    def narrow(entry: dict[str, Any]) -> None:
        set_bound(entry, "lower_bounds", 1, long_bound(98))
        set_bound(entry, "upper_bounds", 1, long_bound(99))

    change_entries(table, narrow)


def summaries(table: Table) -> None:
    def narrow(line: dict[str, Any]) -> None:
        line["partitions"][0]["lower_bound"] = line["partitions"][0]["upper_bound"] = b"a"

    change_lines(table, narrow)


def partition_values(table: Table) -> None:
    change_entries(table, lambda entry: entry["data_file"]["partition"].update(part_0="a"))


def no_rows(table: Table) -> None:
    change_entries(table, lambda entry: entry["data_file"].update(record_count=0))


def nothing_but_nulls(table: Table) -> None:
    def count(entry: dict[str, Any]) -> None:
        for pair in entry["data_file"]["null_value_counts"]:
            pair["value"] = entry["data_file"]["record_count"]
        entry["data_file"].update(lower_bounds=[], upper_bounds=[])  # nulls have none

    change_entries(table, count)


LIES: list[tuple[Lie, str, str]] = [
    (upper_of_ids, "id = 99", "column metrics"),
    (lower_of_ids, "id = 3", "column metrics"),
    (summaries, "part = 'b'", "manifest list"),
    (partition_values, "part = 'b'", "partition values"),
    (no_rows, "id = 3", "record count of 0"),
    (nothing_but_nulls, "id = 3", "column metrics"),
]


@pytest.mark.parametrize("file_format", ALL_FORMATS)
@pytest.mark.parametrize(("lie", "where", "reason"), LIES, ids=lambda each: getattr(each, "__name__", None))
def test_a_file_that_metadata_wrongly_skips_is_an_error(
    catalog: SqlCatalog, lie: Lie, where: str, reason: str, file_format: str
) -> None:
    table = lying_table(catalog, lie, file_format)
    assert formatkit.scan(table, where).count() == 0  # the lie cannot be told while skipping
    with pytest.raises(MisleadingStatisticsError, match="formatkit validate") as raised:
        formatkit.scan(table, where, properties=VERIFY).to_arrow()
    assert reason in raised.value.message
    assert raised.value.missing
    assert str(raised.value.location) in raised.value.message
    with pytest.raises(MisleadingStatisticsError):
        formatkit.scan(table, where, properties=VERIFY).count()


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_rows_that_metadata_wrongly_takes_for_matches_are_an_error(catalog: SqlCatalog, file_format: str) -> None:
    table = lying_table(catalog, upper_of_ids, file_format)
    assert formatkit.scan(table, "id < 11").count() > 11
    with pytest.raises(MisleadingStatisticsError) as raised:
        formatkit.scan(table, "id < 11", properties=VERIFY).to_arrow()
    assert raised.value.surplus
    with pytest.raises(MisleadingStatisticsError):
        formatkit.scan(table, "id < 11", properties=VERIFY).count()


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_good_tables_give_the_same_rows(catalog: SqlCatalog, file_format: str, threads: int) -> None:
    table = lying_table(catalog, lambda _: None, file_format)
    for where in (None, "id = 99", "id < 11", "part = 'b' and id > 90", "id != 5", "id is null"):
        plain = formatkit.scan(table, where, threads=threads)
        verified = formatkit.scan(table, where, threads=threads, properties=VERIFY)
        assert verified.to_arrow() == plain.to_arrow()
        assert verified.count() == plain.count()
        assert verified.files_pruned == plain.files_pruned
        assert verified.explain().files_read == plain.explain().files_read
        assert verified.explain().pushdown == plain.explain().pushdown
        assert formatkit.scan(table, where, limit=3, properties=VERIFY).to_arrow() == plain.to_arrow().slice(0, 3)


@pytest.mark.parametrize("select", [("_pos",), ("_pos", "id"), ("_file", "_deleted", "part"), ()])
def test_the_output_has_the_columns_that_are_asked_for(catalog: SqlCatalog, select: tuple[str, ...]) -> None:
    table = lying_table(catalog, lambda _: None)
    plain = formatkit.scan(table, "id > 30", select).to_arrow()
    assert formatkit.scan(table, "id > 30", select, properties=VERIFY).to_arrow() == plain


def test_filters_on_metadata_columns_are_verified(catalog: SqlCatalog) -> None:
    table = lying_table(catalog, lambda _: None)
    location = formatkit.scan(table, "part = 'b'").tasks[0].location
    for where in (f"_file = '{location}'", "_partition.part_0 = 'a'", "_pos < 7", "_deleted = false", "_spec_id = 1"):
        rows = formatkit.scan(table, where).to_arrow()
        assert formatkit.scan(table, where, properties=VERIFY).to_arrow() == rows


@pytest.mark.parametrize("where", ["statistics", "column_index", "bloom"])
def test_statistics_inside_of_parquet_files_are_verified(tmp_path: Path, where: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"id": pa.array(range(20_000), pa.int64())}),
        path,
        row_group_size=10_000,
        data_page_size=8_000,
        write_batch_size=1_000,
        write_page_index=True,
        use_dictionary=False,
        bloom_filter_options={"id": True} if where == "bloom" else None,
    )
    narrow_parquet(path, where)
    assert formatkit.read_file(path, "id = 19998").count() == 0
    with pytest.raises(MisleadingStatisticsError, match="parquet file") as raised:
        formatkit.read_file(path, "id = 19998", properties=VERIFY).to_arrow()
    assert raised.value.missing == (19_998,)


def test_statistics_inside_of_orc_files_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    formatkit.write_file(path, ROWS)
    narrow_orc(path, 1, 10)
    assert formatkit.read_file(path, "id = 99").count() == 0
    with pytest.raises(MisleadingStatisticsError, match="orc file"):
        formatkit.read_file(path, "id = 99", properties=VERIFY).count()


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_a_reader_that_skips_wrongly_is_noticed(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"a.{file_format}"
    formatkit.write_file(path, ROWS)
    registry = FormatRegistry()
    registry.register_batch(ArrowBatch())
    registry.register(LyingFormat(default_registry().plugin(file_format, pa.RecordBatch)))
    assert formatkit.read_file(path, "id < 100", registry=registry).count() < 100
    with pytest.raises(MisleadingStatisticsError) as raised:
        formatkit.read_file(path, "id < 100", registry=registry, properties=VERIFY).to_arrow()
    assert raised.value.missing == (0, 1, 2, 3, 4)


def test_a_wrong_row_count_is_noticed_by_count(catalog: SqlCatalog) -> None:
    def one_more(table: Table) -> None:
        change_entries(table, lambda entry: entry["data_file"].update(record_count=51))

    table = lying_table(catalog, one_more)
    assert formatkit.scan(table).count() == 102
    with pytest.raises(MisleadingStatisticsError, match="count is 51 by metadata, and 50 by the rows"):
        formatkit.scan(table, properties=VERIFY).count()


@pytest.mark.parametrize("aggregate", ["max(id)", "count(id)"])
def test_wrong_metrics_are_noticed_by_aggregates(catalog: SqlCatalog, aggregate: str) -> None:
    def lie(table: Table) -> None:
        def change(entry: dict[str, Any]) -> None:
            set_bound(entry, "upper_bounds", 1, long_bound(1000))
            for pair in entry["data_file"]["null_value_counts"]:
                pair["value"] = 1

        change_entries(table, change)

    table = lying_table(catalog, lie)
    truth = {"max(id)": 99, "count(id)": 100}[aggregate]
    assert formatkit.scan(table).aggregate(aggregate).to_pylist() != [{aggregate: truth}]
    with pytest.raises(MisleadingStatisticsError, match="by metadata"):
        formatkit.scan(table, properties=VERIFY).aggregate(aggregate)
    found = formatkit.scan(table, properties=VERIFY).aggregate(aggregate, from_metadata=False)
    assert found.to_pylist() == [{aggregate: truth}]


def test_good_metrics_give_the_same_aggregates(catalog: SqlCatalog) -> None:
    table = lying_table(catalog, lambda _: None)
    asked = ("count", "count(id)", "min(id)", "max(id)", "max(part)")
    plain = formatkit.scan(table).aggregate(*asked)
    assert formatkit.scan(table, properties=VERIFY).aggregate(*asked) == plain


def test_buckets_that_travel_are_verified(catalog: SqlCatalog) -> None:
    table = lying_table(catalog, upper_of_ids)
    scan = formatkit.scan(table, "id = 99", properties=VERIFY)
    reader = pickle.loads(pickle.dumps(scan.bucket_reader()))
    buckets = pickle.loads(pickle.dumps(list(scan.buckets(3))))
    with pytest.raises(MisleadingStatisticsError):
        list(chain.from_iterable(map(reader.batches, buckets)))


def test_a_table_may_ask_for_it_and_the_caller_may_refuse(catalog: SqlCatalog) -> None:
    table = lying_table(catalog, upper_of_ids, **VERIFY)
    with pytest.raises(MisleadingStatisticsError):
        formatkit.scan(table, "id = 99").to_arrow()
    assert formatkit.scan(table, "id = 99", properties={"read.verify-skipping": "false"}).count() == 0


@pytest.mark.parametrize("text", ["yes", "", "1"])
def test_values_other_than_true_and_false_are_refused(catalog: SqlCatalog, text: str) -> None:
    table = lying_table(catalog, lambda _: None)
    with pytest.raises(ConfigurationError, match="must be true or false"):
        formatkit.scan(table, properties={"read.verify-skipping": text})


@pytest.mark.parametrize("version", [2, 3])
def test_tables_with_deletes_give_the_same_rows(tmp_path: Path, version: int) -> None:
    model = filled_table(tmp_path, version)
    model.delete(Or(EqualTo("id", 3), EqualTo("id", 14)), "merge-on-read")
    delete_by_equality(model, [4, 15])
    for where in (None, "id < 5", "id = 4", "value is null"):
        for select in (("*",), ("id", "_deleted")):
            rows = formatkit.scan(model.table, where, select).to_arrow().to_pylist()
            verified = formatkit.scan(model.table, where, select, properties=VERIFY).to_arrow().to_pylist()
            assert repr(verified) == repr(rows)  # NaN equals nothing
        counts = [formatkit.scan(model.table, where, properties=each).count() for each in ({}, VERIFY)]
        assert counts[0] == counts[1]


def _narrow_keys(table: Table) -> None:
    def change(entry: dict[str, Any]) -> None:
        if entry["data_file"]["content"] == 2:
            set_bound(entry, "lower_bounds", 1, long_bound(1000))
            set_bound(entry, "upper_bounds", 1, long_bound(1000))

    change_entries(table, change)


def _other_paths(table: Table) -> None:
    def change(entry: dict[str, Any]) -> None:
        if entry["data_file"]["content"] == 1:
            path = entry["data_file"]["file_path"].encode()
            for name in ("lower_bounds", "upper_bounds"):
                set_bound(entry, name, 2147483546, path)
            entry["data_file"]["referenced_data_file"] = None

    change_entries(table, change)


@pytest.mark.parametrize("lie", [_narrow_keys, _other_paths])
def test_delete_files_that_are_wrongly_skipped_are_noticed(tmp_path: Path, lie: Lie) -> None:
    model = filled_table(tmp_path)
    model.delete(Or(EqualTo("id", 3), EqualTo("id", 5)), "merge-on-read")
    delete_by_equality(model, [4, 15])
    lie(model.table)
    table = model.table.refresh()
    assert formatkit.scan(table).to_arrow().num_rows > 16
    with pytest.raises(MisleadingStatisticsError, match="delete files that were skipped") as raised:
        formatkit.scan(table, properties=VERIFY).to_arrow()
    assert raised.value.surplus


def test_a_delete_by_filter_is_verified_too(catalog: SqlCatalog) -> None:
    table = lying_table(catalog, upper_of_ids, **VERIFY)
    before = local_path(table.location())
    with pytest.raises(MisleadingStatisticsError):
        formatkit.delete(table, "id < 11")
    assert before.exists()
    assert formatkit.scan(table.refresh(), properties={"read.verify-skipping": "false"}).to_arrow().num_rows == 100


def test_a_rewrite_of_a_verified_table_keeps_its_rows(catalog: SqlCatalog) -> None:
    table = lying_table(catalog, lambda _: None, **VERIFY)
    formatkit.rewrite(table, "orc", "id < 5")
    assert formatkit.scan(table.refresh()).to_arrow().sort_by("id") == ROWS
    formatkit.delete(table, "id < 11")
    assert formatkit.scan(table.refresh()).count() == 89
