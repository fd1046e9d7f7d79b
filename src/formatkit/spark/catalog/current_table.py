"""A table as it is now: what Spark may ask of it beside being read."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression

import formatkit
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark.catalog.row_level import row_level_operation
from formatkit.spark.catalog.streams import StreamWrite
from formatkit.spark.catalog.tables import ReadTable
from formatkit.spark.catalog.writes import Overwrite, OverwritePartitions, Write, exact_filter
from formatkit.spark.session import configuration_of
from formatkit.spark.writing.jobs import engine_properties
from formatkit.spark.writing.options import WriteOptions, parse_write_options, refuse_stream_options
from formatkit.write.operations.base import Base, whole_files

__all__ = ["CurrentTable", "write_options"]

# What Spark itself reads from the options of a write or of a stream.
_OF_SPARK = ("path", "checkpointlocation")


class CurrentTable(ReadTable):
    """A table as it is now, for queries and for writes."""

    def newWrite(self, mode: str, replaced: Any, info: Any) -> Write:
        options = write_options(info)
        arguments = (self.spark, self.table, self.name, options)
        if mode == "append":
            return Write(*arguments)
        if mode == "overwrite partitions":
            return OverwritePartitions(*arguments)
        where = AlwaysTrue() if mode == "truncate" else self._exactly(replaced)
        if where is None:
            raise UnsupportedError(f"rows cannot be replaced by {[each.toString() for each in replaced]}")
        return Overwrite(*arguments, where)

    def upserts(self, info: Any) -> bool:
        """Whether rows replace those with their keys, so that Spark may hand over results that have changed."""
        return _given_options(info).upsert

    def newStreamWrite(self, mode: str, info: Any) -> StreamWrite:
        # The query keeps the table as it was when it was started.
        table = self.table.catalog.load_table(self.table.name())
        return StreamWrite(self.spark, table, self.name, _given_options(info), info, overwrite=mode == "truncate")

    def newRowLevelOperation(self, command: Any) -> Any:
        return row_level_operation(self.spark, self.table, self.name, command)

    def canOverwrite(self, predicates: Any) -> bool:
        return self._exactly(predicates) is not None

    def canDeleteWhere(self, predicates: Any) -> bool:
        """Whether metadata alone says which rows are gone; else Spark plans the deletion for all executors."""
        where = self._exactly(predicates)
        if where is None:
            return False
        base = Base.of(self.table, "main", None)
        tasks = base.scan((), base.bind(where, case_sensitive=True)).tasks
        return all(task.residual is AlwaysTrue() and task.verification is None for task in whole_files(tasks))

    def deleteWhere(self, predicates: Any) -> None:
        where = self._exactly(predicates)
        if where is None:
            raise UnsupportedError(f"rows cannot be deleted by {[each.toString() for each in predicates]}")
        self._delete(where)

    def truncateTable(self) -> None:
        self._delete(AlwaysTrue())

    def _delete(self, where: BooleanExpression) -> None:
        formatkit.delete(
            self.table,
            where,
            "copy-on-write",
            snapshot_properties={"engine-name": "spark", **engine_properties(self.spark, configuration_of(self.spark))},
        )

    def _exactly(self, predicates: Any) -> BooleanExpression | None:
        return exact_filter(self.jvm, self.table.schema(), predicates)


def write_options(info: Any) -> WriteOptions:
    """The options of a write that is done once; Spark itself says what is replaced, and whether columns fit."""
    options = _given_options(info)
    for name, asked in (("overwrite-mode", options.dynamic), ("filter", options.where is not None)):
        if asked:
            message = (
                f"the option {name} is for formatkit.spark.write; SQL and writeTo say by themselves what they replace"
            )
            raise ConfigurationError(message)
    refuse_stream_options(options)
    if options.merge_schema:
        raise UnsupportedError("merge-schema is for formatkit.spark.write; use ALTER TABLE … ADD COLUMNS before")
    return options


def _given_options(info: Any) -> WriteOptions:
    given = {str(key): str(info.options()[key]) for key in info.options()}
    return parse_write_options({key: value for key, value in given.items() if key.lower() not in _OF_SPARK})
