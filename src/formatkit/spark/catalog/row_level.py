"""DELETE, UPDATE and MERGE that Spark plans: files are written anew, or deletes are written beside them."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from formatkit.contract.batch import Longs
from formatkit.contract.metadata_columns import FILE, LAST_UPDATED, POS, ROW_ID
from formatkit.errors import CommitConflictError, ConfigurationError, InternalError
from formatkit.puffin import DeletionVector
from formatkit.scan import FileTask, Scan
from formatkit.spark.catalog.answers import Answers
from formatkit.spark.catalog.classes import nested_class
from formatkit.spark.catalog.row_tasks import (
    CARRY,
    COPY,
    DELETE,
    INSERT,
    REINSERT,
    UPDATE,
    Columns,
    RowsOfOperation,
    TaskRows,
)
from formatkit.spark.catalog.tables import refuse_options, table_source
from formatkit.spark.catalog.writes import Write, report
from formatkit.spark.java import is_since, java_class, scala_object
from formatkit.spark.planned_scan import ScanProxy
from formatkit.spark.proxies import ScanBuilderProxy
from formatkit.spark.writing.options import WriteOptions
from formatkit.spark.writing.task import WriteRows
from formatkit.write.commit import Change, UncommittedFiles
from formatkit.write.operations.base import Base, whole_files
from formatkit.write.operations.matches import FileMatches, Matches, partition_order
from formatkit.write.operations.merge_on_read import mark_deleted
from formatkit.write.operations.output import Output
from formatkit.write.operations.removal import Removal

__all__ = ["Operation", "row_level_operation"]

_EXPRESSIONS = "org.apache.spark.sql.connector.expressions"
_COPY_ON_WRITE, _MERGE_ON_READ = "copy-on-write", "merge-on-read"
_OPERATION_COLUMN = "__row_operation"
_FIRST_VERSION_WITH_DELETES = 2


def row_level_operation(spark: SparkSession, table: Table, name: str, command: Any) -> Any:
    """What Spark asks how rows are to be changed, as an object of Java.

    Args:
        spark: A classic session.
        table: The table.
        name: What plans call it.
        command: Spark's word for DELETE, UPDATE or MERGE.
    """
    word = str(command.name()).lower()
    base = Base.of(table, "main", None)
    mode = _mode(base, word)
    operation = Operation(spark, table, name, base, word, mode)
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    lineage = (ROW_ID.name, LAST_UPDATED.name) if base.has_lineage else ()
    if mode == _COPY_ON_WRITE:
        made = nested_class(jvm, "GroupOperation")
        return made(operation, command, operation.references(lineage))
    made = nested_class(jvm, "DeltaOperation")
    row_id = operation.references((FILE.name, POS.name))
    return made(operation, command, operation.references(lineage), row_id)


def _mode(base: Base, command: str) -> str:
    key = f"write.{command}.mode"
    mode = base.metadata.properties.get(key, _COPY_ON_WRITE).lower()
    if mode not in (_COPY_ON_WRITE, _MERGE_ON_READ):
        message = f"the table's property {key} is {mode!r}; it must be {_COPY_ON_WRITE} or {_MERGE_ON_READ}"
        raise ConfigurationError(message)
    if mode == _MERGE_ON_READ and base.metadata.format_version < _FIRST_VERSION_WITH_DELETES:
        message = f"{key} is {mode}, but tables of format version 1 have no delete files; set it to {_COPY_ON_WRITE}"
        raise ConfigurationError(message)
    return mode


class Operation(Answers):
    """One DELETE, UPDATE or MERGE of one table: its scan, and what is written.

    Args:
        spark: A classic session.
        table: The table.
        name: What plans call it.
        base: The snapshot whose rows are changed.
        command: ``delete``, ``update`` or ``merge``.
        mode: ``copy-on-write`` or ``merge-on-read``.
    """

    def __init__(self, spark: SparkSession, table: Table, name: str, base: Base, command: str, mode: str) -> None:
        super().__init__(spark)
        self._table = table
        self._name = name
        self.base = base
        self.command = command
        self.mode = mode
        self._scans: list[_OperationScan] = []

    def references(self, names: Sequence[str]) -> Any:
        fields = java_class(self.jvm, f"{_EXPRESSIONS}.FieldReference")
        return self.array(f"{_EXPRESSIONS}.NamedReference", [fields.column(name) for name in names])

    def newScanBuilder(self, options: Any) -> Any:
        refuse_options(options, "change rows of", "leave it out")
        factory = self._whole_files if self.mode == _COPY_ON_WRITE else None
        return _OperationScanBuilder(self, table_source(self.spark, self._table, self._name, factory=factory))

    def _whole_files(self, keep: BooleanExpression, columns: Sequence[str] | None, _: int | None) -> Scan:
        """All rows of the files that may have a row to keep: what is not changed is written anew, too."""
        wanted = {task.location for task in whole_files(self.base.scan((), keep).tasks)}
        everything = self.base.scan(("*",) if columns is None else columns)
        return everything.of_tasks(task for task in everything.tasks if task.location in wanted)

    def note_scan(self, scan: _OperationScan) -> None:
        """Remember a scan of the files that will be replaced."""
        self._scans.append(scan)

    def scanned_files(self) -> dict[str, FileTask]:
        """The files that the query reads, and that its rows take the place of."""
        found = [{task.location: task for task in whole_files(each.planned.scan.tasks)} for each in self._scans]
        if not found:
            return {}
        if any(set(each) != set(found[0]) for each in found):
            raise InternalError(f"Spark planned several scans of {self._name} for one {self.command.upper()}")
        return found[0]

    def newWrite(self, _mode: str, _replaced: Any, info: Any) -> Write:
        refuse_options(info.options(), "change rows of", "leave it out")
        return _RowWrite(self.spark, self._table, self._name, self)


class _OperationScanBuilder(ScanBuilderProxy):
    """Builds the scan of an operation, of which it takes note."""

    class Java:
        implements = ScanBuilderProxy.Java.implements

    def __init__(self, operation: Operation, source: Any) -> None:
        super().__init__(source)
        self._operation = operation

    def build(self) -> Any:
        scan = _OperationScan(self._source, self._where, self._columns, None)
        self._operation.note_scan(scan)
        return scan


class _OperationScan(ScanProxy):
    """A scan that no filter changes any more once it is planned: its files are those that will be replaced."""

    class Java:
        implements = ScanProxy.Java.implements

    @property
    def planned(self) -> Any:
        return self._plan

    def filterAttributes(self) -> Any:
        return self._source.java_array(f"{_EXPRESSIONS}.NamedReference")


class _RowWrite(Write):
    """What the tasks of a row-level operation write, and its commit."""

    def __init__(self, spark: SparkSession, table: Table, name: str, operation: Operation) -> None:
        self._operation = operation
        super().__init__(spark, table, name, WriteOptions(), operation.base.stored_schema)
        self.check_main_branch(operation.command.upper())

    def distributed(self, query: Any) -> Any:
        """As they come: rows of a file that is written anew are together already."""
        return query

    def function(self, command: Any, output: Any) -> WriteRows:
        projections = command.projections()
        names = [output.apply(i).name() for i in range(output.size())]
        if self._operation.mode == _COPY_ON_WRITE:
            row, row_id = projections.rowProjection(), None
        else:
            row = projections.rowProjection().get() if projections.rowProjection().isDefined() else None
            row_id = projections.rowIdProjection()
        metadata = projections.metadataProjection().get() if projections.metadataProjection().isDefined() else None
        columns = Columns(
            operation=names.index(_OPERATION_COLUMN) if _OPERATION_COLUMN in names else None,
            codes=self._codes(),
            row=_ordinals(row),
            names=tuple(field.name for field in self._operation.base.schema.fields),
            row_id=_ordinals(row_id),
            metadata=_ordinals(metadata),
            metadata_names=() if metadata is None else tuple(metadata.schema().fieldNames()),
        )
        columns.check(self.name)
        return RowsOfOperation(self.job.task, title=f"formatkit {self._operation.command} {self.name}", columns=columns)

    def _codes(self) -> dict[int, int]:
        known = scala_object(self.jvm, "org.apache.spark.sql.catalyst.util.RowDeltaUtils")
        found = {
            known.DELETE_OPERATION(): DELETE,
            known.UPDATE_OPERATION(): UPDATE,
            known.INSERT_OPERATION(): INSERT,
            known.REINSERT_OPERATION(): REINSERT,
        }
        if is_since(self.spark, 4, 2):
            return {**found, known.COPY_OPERATION(): COPY}
        return {**found, known.WRITE_OPERATION(): INSERT, known.WRITE_WITH_METADATA_OPERATION(): CARRY}

    def commit(self, messages: Any) -> None:
        found: list[TaskRows] = [report(each) for each in messages]
        files = [message.files for message in found]
        counts: Counter[str] = Counter()
        for message in found:
            counts.update(message.counts)
        if self._operation.mode == _COPY_ON_WRITE:
            self.job.commit(files, lambda written: self._replacement(written, counts))
            return
        with UncommittedFiles(self.table.io) as deletes:
            try:
                self.job.commit(files, lambda written: self._delta(written, _positions(found), counts, deletes))
            except Exception:
                raise
            except BaseException:
                # Nobody knows how far it came.
                deletes.keep()
                raise
            deletes.keep()

    def _replacement(self, files: tuple[DataFile, ...], counts: Counter[str]) -> Change | None:
        removed = self._operation.scanned_files()
        self._check_copies(removed, counts)
        if not removed and not files:
            return None
        removal = Removal()
        removal.remove_files(removed.values())
        return removal.change(files, **self._about())

    def _check_copies(self, removed: dict[str, FileTask], counts: Counter[str]) -> None:
        """Rows of the files that go must be among those that come, unless they were to be deleted."""
        if any(task.deletes for task in removed.values()) or any(task.row_count is None for task in removed.values()):
            return
        before = sum(task.row_count or 0 for task in removed.values())
        after = counts["copied"] + counts["updated"]
        wrong = after != before if self._operation.command == "update" else after > before
        if wrong and not counts["unnamed"]:
            raise InternalError(
                f"{self._operation.command.upper()} of {self.name} read {before} rows of {len(removed)} files and "
                f"wrote {after} of them anew; nothing was committed"
            )

    def _delta(
        self,
        files: tuple[DataFile, ...],
        positions: dict[str, Longs],
        counts: Counter[str],
        uncommitted: UncommittedFiles,
    ) -> Change | None:
        base = self._operation.base
        if self._operation.command == "update" and counts["deleted"] != counts["inserted"]:
            raise InternalError(
                f"UPDATE of {self.name} took out {counts['deleted']} rows and wrote {counts['inserted']}; nothing was "
                "committed"
            )
        if not positions and not files:
            return None
        output = Output(base, self.table.io, uncommitted)
        matches = Matches(whole=(), parts=_matches(base, positions))
        removal = mark_deleted(base, matches, output)
        return removal.change(files, **self._about())

    def _about(self) -> dict[str, Any]:
        # Which rows matter is known to Spark's plan only: nobody may have added any.
        return {"command": self._operation.command, **self.conflicts(self._operation.base.snapshot_id, AlwaysTrue())}


def _ordinals(projection: Any) -> tuple[int, ...]:
    if projection is None:
        return ()
    found = projection.colOrdinals()
    return tuple(int(found.apply(i)) for i in range(found.size()))


def _positions(messages: Sequence[TaskRows]) -> dict[str, Longs]:
    """The rows that all tasks want to be deleted, by file; each row once."""
    found: dict[str, list[Longs]] = {}
    for message in messages:
        for location, pickled in message.deleted.items():
            found.setdefault(location, []).append(DeletionVector.parse(pickled, location).positions)
    merged = {}
    for location, parts in found.items():
        every = np.sort(np.concatenate(parts))
        if len(every) > 1 and bool((np.diff(every) == 0).any()):
            raise InternalError(f"two tasks deleted the same row of {location}; nothing was committed")
        merged[location] = every
    return merged


def _matches(base: Base, positions: dict[str, Longs]) -> Generator[FileMatches, None, None]:
    files = {task.location: task for task in whole_files(base.scan(()).tasks) if task.location in positions}
    missing = sorted(set(positions) - set(files))
    if missing:
        raise CommitConflictError(f"{missing[0]} has rows to delete, but is no file of the table", location=missing[0])
    for location in sorted(files, key=lambda each: (partition_order(files[each]), each)):
        yield FileMatches(file=files[location], positions=positions[location])
