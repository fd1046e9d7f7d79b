"""``CALL fk.system.…``: maintenance that formatkit has, and moves of the current snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyspark.sql.types as st
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyspark.sql import SparkSession

import formatkit
from formatkit.errors import ConfigurationError
from formatkit.spark.catalog.answers import Answers
from formatkit.spark.catalog.classes import nested_class
from formatkit.spark.catalog.metadata_tables import local_rows
from formatkit.spark.java import java_array, java_class, java_type
from formatkit.spark.jobs.engine import SparkEngine
from formatkit.write.commit import enable_version3

__all__ = ["PROCEDURES", "procedure"]

_PROCEDURES = "org.apache.spark.sql.connector.catalog.procedures"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Values = Mapping[str, Any]
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class _Procedure:
    """What CALL can run.

    Attributes:
        description: One line about it.
        parameters: As in a list of columns. The table is always the first.
        required: Those that have no default.
        result: The columns that it returns.
        run: From the session, the table and the values of the other parameters to the rows.
    """

    description: str
    parameters: str
    required: tuple[str, ...]
    result: str
    run: Callable[[SparkSession, Table, Values], Rows]


def _rewrite_data_files(spark: SparkSession, table: Table, values: Values) -> Rows:
    sort = values["sort_order"]
    result = formatkit.rewrite(
        table,
        values["file_format"],
        values["where"],
        values["target_file_size_bytes"],
        sort=None if sort is None else [each.strip() for each in sort.split(",")],
        max_commits=values["max_commits"] or 1,
        job_id=values["job_id"],
        engine=SparkEngine(spark),
    )
    rewritten = result.plan.rewritten if result.snapshot is not None else ()
    return [(len(rewritten), result.added_files, sum(file.size_bytes or 0 for file in rewritten))]


def _remove_orphan_files(spark: SparkSession, table: Table, values: Values) -> Rows:
    older = values["older_than"]
    dry_run = True if values["dry_run"] is None else values["dry_run"]
    report = formatkit.clean_orphans(
        table,
        older_than=timedelta(days=3) if older is None else _EPOCH + timedelta(microseconds=older),
        dry_run=dry_run,
        location=values["location"],
        engine=SparkEngine(spark),
    )
    return [(file.location,) for file in report.orphans]


def _rollback_to_snapshot(_: SparkSession, table: Table, values: Values) -> Rows:
    before = table.metadata.current_snapshot_id
    table.manage_snapshots().rollback_to_snapshot(values["snapshot_id"]).commit()
    return [(before, table.metadata.current_snapshot_id)]


def _rollback_to_timestamp(_: SparkSession, table: Table, values: Values) -> Rows:
    before = table.metadata.current_snapshot_id
    table.manage_snapshots().rollback_to_timestamp(values["timestamp"] // 1000).commit()
    return [(before, table.metadata.current_snapshot_id)]


def _set_current_snapshot(_: SparkSession, table: Table, values: Values) -> Rows:
    if (values["snapshot_id"] is None) == (values["ref"] is None):
        raise ConfigurationError("set_current_snapshot takes either snapshot_id or ref")
    before = table.metadata.current_snapshot_id
    table.manage_snapshots().set_current_snapshot(values["snapshot_id"], values["ref"]).commit()
    return [(before, table.metadata.current_snapshot_id)]


_MOVED = "previous_snapshot_id bigint, current_snapshot_id bigint"
PROCEDURES: dict[str, _Procedure] = {
    "rewrite_data_files": _Procedure(
        "Writes short files, files with deleted rows and files of older partition specs anew.",
        "table string, where string, sort_order string, file_format string, target_file_size_bytes bigint, "
        "max_commits int, job_id string",
        ("table",),
        "rewritten_data_files_count int, added_data_files_count int, rewritten_bytes_count bigint",
        _rewrite_data_files,
    ),
    "remove_orphan_files": _Procedure(
        "Lists files to which the table does not refer; deletes them with dry_run => false.",
        "table string, older_than timestamp, location string, dry_run boolean",
        ("table",),
        "orphan_file_location string",
        _remove_orphan_files,
    ),
    "rollback_to_snapshot": _Procedure(
        "Makes an ancestor the current snapshot.",
        "table string, snapshot_id bigint",
        ("table", "snapshot_id"),
        _MOVED,
        _rollback_to_snapshot,
    ),
    "rollback_to_timestamp": _Procedure(
        "Makes the snapshot current that was it at a moment.",
        "table string, timestamp timestamp",
        ("table", "timestamp"),
        _MOVED,
        _rollback_to_timestamp,
    ),
    "set_current_snapshot": _Procedure(
        "Makes any snapshot, branch or tag the current snapshot.",
        "table string, snapshot_id bigint, ref string",
        ("table",),
        _MOVED,
        _set_current_snapshot,
    ),
}
"""By name, as in Iceberg for Java."""


def procedure(spark: SparkSession, catalog_name: str, catalog: Catalog, name: str) -> Any:
    """A procedure as an object of Java."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    found = PROCEDURES[name]
    parameters = java_class(jvm, f"{_PROCEDURES}.ProcedureParameter")
    made = []
    for field in _fields(found.parameters):
        builder = getattr(parameters, "in")(field.name, java_type(spark, field.dataType))
        made.append((builder if field.name in found.required else builder.defaultValue("NULL")).build())
    array = java_array(spark, parameters, made)
    answers = _Call(spark, catalog_name, catalog, name)
    return nested_class(jvm, "Procedure")(answers, name, found.description, array)


class _Call(Answers):
    def __init__(self, spark: SparkSession, catalog_name: str, catalog: Catalog, name: str) -> None:
        super().__init__(spark)
        self._catalog_name = catalog_name
        self._catalog = catalog
        self._name = name

    def call(self, given: Any) -> Any:
        found = PROCEDURES[self._name]
        names = [field.name for field in _fields(found.parameters)]
        values = dict(zip(names, list(given), strict=True))
        for name in found.required:
            if values[name] is None:
                raise ConfigurationError(f"{self._name} needs {name}, which is null")
        enable_version3()
        name = ".".join(parts := self._table_name(values.pop("table")))
        try:
            table = self._catalog.load_table(tuple(parts))
        except (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError) as error:
            raise ConfigurationError(f"{self._name}: the catalog {self._catalog_name} has no table {name}") from error
        result = st.StructType(_fields(found.result))
        return local_rows(self.spark, result, found.run(self.spark, table, values), self._name)

    def _table_name(self, text: str) -> Sequence[str]:
        parser = self.spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
        parsed = parser.parseMultipartIdentifier(text)
        parts = [parsed.apply(i) for i in range(parsed.size())]
        if len(parts) > 2 and parts[0] == self._catalog_name:
            return parts[1:]
        return parts


def _fields(text: str) -> list[st.StructField]:
    parsed: Any = st.StructType.fromDDL(text)
    return list(parsed.fields)
