"""A table as it is now: what Spark may ask of it beside being read."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression

import formatkit
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark.catalog.row_level import row_level_operation
from formatkit.spark.catalog.tables import ReadTable
from formatkit.spark.catalog.writes import Overwrite, OverwritePartitions, Write, exact_filter
from formatkit.spark.writing.jobs import engine_properties
from formatkit.spark.writing.options import WriteOptions, parse_write_options
from formatkit.write.operations.base import Base, whole_files

__all__ = ["CurrentTable", "write_options"]


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
            snapshot_properties={"engine-name": "spark", **engine_properties(self.spark, dict(self.spark.conf.getAll))},
        )

    def _exactly(self, predicates: Any) -> BooleanExpression | None:
        return exact_filter(self.jvm, self.table.schema(), predicates)


def write_options(info: Any) -> WriteOptions:
    """The options of a write; Spark itself says what is replaced, and whether columns fit."""
    given = {str(key): str(info.options()[key]) for key in info.options()}
    options = parse_write_options({key: value for key, value in given.items() if key.lower() != "path"})
    for name, asked in (("overwrite-mode", options.dynamic), ("filter", options.where is not None)):
        if asked:
            message = (
                f"the option {name} is for formatkit.spark.write; SQL and writeTo say by themselves what they replace"
            )
            raise ConfigurationError(message)
    if options.merge_schema:
        raise UnsupportedError("merge-schema is for formatkit.spark.write; use ALTER TABLE … ADD COLUMNS before")
    return options
