"""Whatever rows, partitions, formats and modes: what Spark has written is what one process reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as s
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, MonthTransform, TruncateTransform
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StringType, StructType
from pyspark.sql import SparkSession

import formatkit.spark
from formatkit.spark.writing.api import WriteMode
from formatkit.write.commit import disable_version3, enable_version3
from support.written_tables import ALL_FORMATS, files_on_disk, new_table, spec, table_rows

COLUMNS = (
    NestedField(1, "id", LongType()),
    NestedField(2, "word", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "in", StructType(NestedField(6, "n", IntegerType()))),
)
DDL = "id bigint, word string, day date, x double, `in` struct<n: int>"
SPECS = {
    "none": PartitionSpec(),
    "identity": spec((2, IdentityTransform())),
    "double": spec((4, IdentityTransform())),
    "bucket": spec((1, BucketTransform(3)), (3, MonthTransform())),
    "truncate": spec((2, TruncateTransform(1)), (6, IdentityTransform())),
}
PLACES: dict[str, Callable[[Any], Any]] = {
    "none": lambda row: (),
    "identity": lambda row: row[1],
    "double": lambda row: repr(row[3]),
    "bucket": lambda row: (
        BucketTransform(3).transform(LongType())(row[0]),
        row[2] and (row[2].year, row[2].month),
    ),
    "truncate": lambda row: (row[1] and row[1][:1], row[4] and row[4]["n"]),
}
ROWS = s.lists(
    s.tuples(
        s.none() | s.integers(-20, 20),
        s.none() | s.text("abcä ", max_size=3),
        s.none() | s.dates(dt.date(1960, 1, 1), dt.date(2030, 1, 1)),
        s.none() | s.floats(width=32),
        s.none() | s.fixed_dictionaries({"n": s.none() | s.integers(0, 2)}),
    ),
    max_size=20,
)
MODES = ("append", "overwrite", "overwrite where", "overwrite-partitions")


@pytest.mark.parametrize("mode", MODES)
@settings(
    max_examples=max(2, settings.default.max_examples // 25 if settings.default else 4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=s.data())
def test_what_spark_writes_is_what_one_process_reads(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, mode: str, data: s.DataObject
) -> None:
    before, rows = data.draw(ROWS), data.draw(ROWS)
    place = data.draw(s.sampled_from(sorted(SPECS)))
    version = data.draw(s.sampled_from(["1", "2", "3"]))
    formats = data.draw(s.tuples(*[s.sampled_from(ALL_FORMATS)] * 2))
    order = data.draw(
        s.sampled_from([UNSORTED_SORT_ORDER, SortOrder(SortField(source_id=1, transform=IdentityTransform()))])
    )
    distribution = data.draw(s.sampled_from([None, "none", "hash", "range"]))
    folder: Path = tmp_path_factory.mktemp("property")
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    enable_version3()
    try:
        catalog.create_namespace("db")
        table = new_table(
            catalog, *COLUMNS, partitions=SPECS[place], sort_order=order, properties={"format-version": version}
        )
        for number, (given_rows, how) in enumerate([(before, "append"), (rows, mode)]):
            frame = spark.createDataFrame([spark_row(row) for row in given_rows], DDL).repartition(2)
            formatkit.spark.write(
                frame,
                table,
                cast("WriteMode", how.removesuffix(" where")),
                where="id < 5" if how == "overwrite where" else None,
                file_format=formats[number],
                distribution_mode=distribution,
            )
        assert texts(table_rows(table)) == texts(expected(before, rows, mode, place))
        if mode == "append":
            assert sum(bool(each) for each in (before, rows)) <= len(files_on_disk(table)) or not before + rows
    finally:
        disable_version3()
        catalog.close()


def spark_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row[:4], None if row[4] is None else (row[4]["n"],))


def expected(before: list[Any], rows: list[Any], mode: str, place: str) -> list[Any]:
    match mode:
        case "append":
            kept = before
        case "overwrite":
            kept = []
        case "overwrite where":
            kept = [row for row in before if row[0] is None or row[0] >= 5]
        case _:
            replaced = {repr(PLACES[place](row)) for row in rows}
            kept = [row for row in before if repr(PLACES[place](row)) not in replaced]
    return kept + rows


def texts(rows: list[Any]) -> list[str]:
    """NaN is NaN here, and 0.0 is not -0.0."""
    return sorted(map(repr, rows))
