"""The data source as Spark's Python processes call it, one after the other, without Spark around them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

import formatkit
from formatkit.errors import ColumnNotFoundError, ConfigurationError, UnsupportedError
from formatkit.spark.catalogs import catalogs_of
from pyspark_formatkit import DefaultSource
from support.source_tables import FIRST, SECOND, WORDS, KnownTable, known_table
from support.spark_tables import everything
from support.written_tables import ALL_FORMATS

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnownTable]:
    with known_table(tmp_path_factory.mktemp("source")) as table:
        yield table


def plan(options: dict[str, str], schema: StructType | None = None) -> tuple[DefaultSource, StructType, Any]:
    source = DefaultSource(options)
    schema = schema or source.schema()
    source = pickle.loads(pickle.dumps(source))
    return source, schema, source.reader(schema)


def run(options: dict[str, str], schema: StructType | None = None) -> tuple[pa.Table, int]:
    """The rows, and how many partitions they came in."""
    source, schema, reader = plan(options, schema)
    partitions: list[InputPartition] = [pickle.loads(pickle.dumps(each)) for each in reader.partitions()]
    reader = pickle.loads(pickle.dumps(reader))
    # Where Spark checks that batches have exactly the form that it wants.
    batches = [
        batch
        for partition in partitions
        for batch in records_to_arrow_batches(reader.read(partition), 10_000, schema, source)
    ]
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in schema.names}), len(partitions)


def rows(options: dict[str, str]) -> list[tuple[Any, ...]]:
    table, _ = run(options)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_all_rows_come_without_further_options(known: KnownTable) -> None:
    assert rows(known.options()) == WORDS


def test_old_states_have_the_schema_that_they_were_written_with(known: KnownTable) -> None:
    second = sorted(FIRST + SECOND)
    moment = known.moments[1]
    for options in (
        {"snapshot_id": known.snapshots[1]},
        {"versionAsOf": known.snapshots[1]},
        {"versionAsOf": "second"},
        {"tag": "second"},
        {"as_of_timestamp": moment},
        {"as_of_timestamp": moment + 1},
    ):
        assert rows(known.options(**options)) == second
    assert rows(known.options(as_of_timestamp=moment - 1)) == FIRST


def test_branches_have_the_schema_of_the_table(known: KnownTable) -> None:
    expected = [(*row, None) for row in FIRST]
    assert rows(known.options(branch="old")) == rows(known.options(versionAsOf="old")) == expected
    assert rows(known.options(branch="main")) == WORDS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snapshot_id": 1}, "snapshot-id asks for 1, which the table does not have; its snapshots: "),
        ({"as_of_timestamp": 1}, "as-of-timestamp asks for 1, .* its history: .* since "),
        ({"branch": "second"}, "branch asks for second, .* its branches: main, old"),
        ({"tag": "old"}, "tag asks for old, .* its tags: second"),
        ({"versionAsOf": "new"}, "versionAsOf asks for new, .* its branches and tags: main, old, second"),
        ({"path": "db.nothing"}, "catalog 'local' has no table 'db.nothing'"),
        ({"path": "nowhere.words"}, "catalog 'local' has no table 'nowhere.words'"),
        ({"path": "/warehouse/db/words"}, "is the location of no metadata file"),
        ({"path": "/a/v1.metadata.json"}, "leave out the option catalog"),
    ],
)
def test_what_is_not_there_is_named(known: KnownTable, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        DefaultSource(known.options(**options)).schema()


def test_catalogs_that_nobody_configured_are_refused_with_the_ways_to_do_it() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'prod'; give options catalog.type.*spark.formatkit.catalog.prod.uri"
    ):
        DefaultSource({"path": "db.t", "catalog": "prod"}).schema()
    with pytest.raises(ConfigurationError, match="catalog 'prod' cannot be used: 'nonsense' is not a valid"):
        DefaultSource({"path": "db.t", "catalog": "prod", "catalog.type": "nonsense"}).schema()


@pytest.mark.parametrize(
    ("path", "catalogs"),
    [
        ("db.words", ["local"]),
        ("local.db.words", ["local"]),
        ("local.db.words", ["local", "other"]),
    ],
)
def test_the_catalog_is_the_first_part_of_a_name_or_the_only_one(
    known: KnownTable, path: str, catalogs: list[str]
) -> None:
    configured = type("Configured", (DefaultSource,), {"catalogs": dict.fromkeys(catalogs, known.properties)})
    assert len(configured({"path": path}).schema()) == 3


def test_catalogs_come_from_the_configuration_of_pyiceberg(known: KnownTable) -> None:
    settings = {f"PYICEBERG_CATALOG__LOCAL__{name.upper()}": value for name, value in known.properties.items()}
    program = "from pyspark_formatkit import DefaultSource as S; print(S({'path': 'db.words'}).schema().names)"
    environment = {**os.environ, **settings, "PYICEBERG_DEFAULT_CATALOG": "local"}
    command = [sys.executable, "-c", program]
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "['id', 'name', 'size']"


def test_filters_columns_and_metadata_columns_are_those_of_the_scan(known: KnownTable) -> None:
    options = known.options(filter="id > 1 and name is not null", columns="name,id", metadata_columns="_pos,_spec_id")
    assert rows(options) == [("four", 4, 0, 0), ("six", 6, 0, 0), ("three", 3, 2, 0), ("two", 2, 1, 0)]
    assert rows(known.options(columns="ID", case_sensitive="false", filter="Id = 2")) == [(2,)]
    with pytest.raises(ColumnNotFoundError, match="no column 'ID'"):
        DefaultSource(known.options(columns="ID")).schema()


@pytest.mark.parametrize("limit", [0, 1, 4, 100])
def test_a_limit_is_that_of_all_rows(known: KnownTable, limit: int) -> None:
    assert run(known.options(limit=limit))[0].num_rows == min(limit, len(WORDS))


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        ({}, 3),
        ({"buckets": 2}, 2),
        ({"split_size": 1 << 30}, 1),
        ({"split_size": 8 << 20}, 2),
        ({"split_size": 2 << 20, "file_open_cost": 0}, 1),
    ],
)
def test_each_bucket_is_a_partition(known: KnownTable, options: dict[str, Any], partitions: int) -> None:
    table, found = run(known.options(**options))
    assert (table.num_rows, found) == (len(WORDS), partitions)


def test_an_empty_table_has_columns_and_one_partition(known: KnownTable) -> None:
    table, partitions = run(known.options(path="db.empty"))
    assert (table.num_rows, table.column_names, partitions) == (0, ["id", "name"], 1)


def test_a_given_schema_chooses_columns(known: KnownTable) -> None:
    chosen = StructType([StructField("name", StringType()), StructField("id", LongType())])
    table, _ = run(known.options(), chosen)
    assert set(table.column("id").to_pylist()) == {row[0] for row in WORDS}
    assert table.column_names == ["name", "id"]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("id", IntegerType()), "'id' as int, and the table has it as bigint not null"),
        (StructField("name", StringType(), False), "'name' as string not null, and the table has it as string"),
        (StructField("nothing", StringType()), "has a column 'nothing', and the table has: id, name, size"),
    ],
)
def test_a_given_schema_changes_no_type(known: KnownTable, field: StructField, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan(known.options(), StructType([field]))


def test_what_is_committed_later_is_not_seen(tmp_path: Path) -> None:
    with known_table(tmp_path) as known:
        source = DefaultSource(known.options())
        schema = source.schema()
        formatkit.delete(known.table, "id > 1")
        assert sum(len(each.value.tasks) for each in source.reader(schema).partitions()) == 3
        assert rows(known.options()) == WORDS[:1]


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_every_format_delete_and_type_has_the_form_that_spark_wants(file_format: str) -> None:
    with everything(file_format) as made:
        table, _ = run({"path": made.table.metadata_location, "nanoseconds": "integer", "buckets": "3"})
        assert table.num_rows == formatkit.scan(made.table).count()
        with pytest.raises(UnsupportedError, match="'ns' is timestamp_ns"):
            DefaultSource({"path": made.table.metadata_location}).schema()


def test_a_task_is_sent_its_own_bucket_only(known: KnownTable) -> None:
    _, _, reader = plan(known.options())
    assert all(
        task.location.encode() not in pickle.dumps(reader) for each in reader.partitions() for task in each.value.tasks
    )


def test_spark_is_never_told_that_it_may_push_filters(known: KnownTable) -> None:
    _, _, reader = plan(known.options())
    assert type(reader).pushFilters is DataSourceReader.pushFilters


def test_configurations_of_spark_tell_catalogs() -> None:
    configuration = {
        "spark.formatkit.catalog.mine.type": "sql",
        "spark.formatkit.catalog.mine.uri": "sqlite://",
        "spark.sql.catalog.shared": ICEBERG,
        "spark.sql.catalog.shared.type": "rest",
        "spark.sql.catalog.shared.uri": "http://a",
        "spark.sql.catalog.shared.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "spark.formatkit.catalog.shared.uri": "http://b",
        "spark.sql.catalog.folder": ICEBERG,
        "spark.sql.catalog.folder.type": "hadoop",
        "spark.sql.catalog.other": "com.example.Catalog",
        "spark.sql.catalog.other.type": "rest",
        "spark.sql.shuffle.partitions": "4",
    }
    assert catalogs_of(configuration) == {
        "mine": {"type": "sql", "uri": "sqlite://"},
        "shared": {"type": "rest", "uri": "http://b"},
    }


def test_spark_finds_the_source_without_loading_formatkit() -> None:
    program = "import sys, pyspark_formatkit; print(sorted(m for m in sys.modules if m.split('.')[0] == 'formatkit'))"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"
