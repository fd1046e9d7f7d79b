"""`formatkit.spark.write`: the rows of a DataFrame into a table, in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, overload

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql import DataFrame, SparkSession

from formatkit.errors import ConfigurationError
from formatkit.spark.catalogs import catalogs_of, shown_name
from formatkit.spark.interpreter import check_interpreter
from formatkit.spark.session import configuration_of, parallelism
from formatkit.spark.writing.commit import ChangeOf, WriteJob
from formatkit.spark.writing.config import write_config
from formatkit.spark.writing.copying import CopiedFiles, CopyRows, copy_work
from formatkit.spark.writing.distribution import distribute, distribution_of, shuffle_settings
from formatkit.spark.writing.jobs import engine_properties, run_on_work, run_tasks, speculates
from formatkit.spark.writing.merge import merge, upsert
from formatkit.spark.writing.options import WriteOptions, parse_write_options, refuse_stream_options
from formatkit.spark.writing.schema import Assignment, assignment_of, evolve, fitted
from formatkit.spark.writing.tables import NewTable, opened_table
from formatkit.spark.writing.task import TaskFiles
from formatkit.write.commit import Change
from formatkit.write.merge import MergeResult
from formatkit.write.operations.base import Base
from formatkit.write.operations.matches import files_with_matches
from formatkit.write.operations.overwrite import remove_partitions
from formatkit.write.operations.removal import Removal

__all__ = ["WriteMode", "WriteResult", "target_branch", "write"]

WriteMode = Literal["append", "overwrite", "overwrite-partitions"]
MergeMode = Literal["merge", "upsert"]
_WAP_ID = "spark.wap.id"
_WAP_BRANCH = "spark.wap.branch"
_WAP_ENABLED = "write.wap.enabled"
_MAIN = "main"


@dataclass(frozen=True)
class WriteResult:
    """What a write did.

    Attributes:
        snapshot: What was committed; None if there was nothing to commit.
        rows: How many rows were written, those that an overwrite copied included.
        files: How many data files were written.
        bytes: How long they are together.
        repeated: Whether an earlier write with the same idempotency key made the snapshot, and this one nothing.
    """

    snapshot: Snapshot | None
    rows: int
    files: int
    bytes: int
    repeated: bool = False


@overload
def write(
    df: DataFrame,
    table: Table | str,
    mode: WriteMode = ...,
    *,
    where: str | BooleanExpression | None = ...,
    file_format: str | None = ...,
    branch: str | None = ...,
    merge_schema: bool = ...,
    create: bool = ...,
    partition_by: str | Sequence[str] = ...,
    sort_by: str | Sequence[str] = ...,
    table_properties: Mapping[str, str] | None = ...,
    properties: Mapping[str, str] | None = ...,
    snapshot_properties: Mapping[str, str] | None = ...,
    idempotency_key: str | None = ...,
    **options: Any,
) -> WriteResult: ...


@overload
def write(df: DataFrame, table: Table | str, mode: MergeMode, **merging: Any) -> MergeResult: ...


def write(
    df: DataFrame,
    table: Table | str,
    mode: WriteMode | MergeMode = "append",
    *,
    where: str | BooleanExpression | None = None,
    file_format: str | None = None,
    branch: str | None = None,
    merge_schema: bool = False,
    create: bool = False,
    partition_by: str | Sequence[str] = (),
    sort_by: str | Sequence[str] = (),
    table_properties: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
    **options: Any,
) -> WriteResult | MergeResult:
    """Write the rows of a DataFrame to a table in one snapshot: executors write the files, this process commits.

    Columns are matched by name, in the way that Spark's own INSERT does: `spark.sql.caseSensitive` and
    `spark.sql.storeAssignmentPolicy` count. A write that fails leaves the table as it was; a driver that dies before
    the commit, too.

    Args:
        df: The rows, of a classic session or of Spark Connect. They are computed once.
        table: A pyiceberg table, which shows the snapshot afterwards, or a name in a catalog (``db.table``), as in
            `formatkit.spark.read`.
        mode: ``"append"``; ``"overwrite"`` replaces the rows that match `where`; ``"overwrite-partitions"`` replaces
            the partitions that the data has rows for; ``"merge"`` is `formatkit.spark.merge` and takes its arguments
            (`on`, `matched`, …), ``"upsert"`` takes `join_columns`; the `mode` of both is called `merge_mode` here.
        where: Which rows an overwrite replaces; all of them if left out.
        file_format: The format of new files; `write.format.default` of the table if left out, else Parquet.
        branch: Where to commit; ``spark.wap.branch`` or main if left out.
        merge_schema: Add the columns that the table lacks, and widen types, before rows are written.
        create: Make the table if there is none of this name.
        partition_by: Of a table that is made: ``"region"``, ``"days(at)"``, ``"bucket(16, id)"``.
        sort_by: Of a table that is made: ``"id"``, ``"at desc"``.
        table_properties: Of a table that is made.
        properties: For this write, on top of the table's own `write.*` properties.
        snapshot_properties: What the snapshot's summary is to say as well.
        idempotency_key: If a snapshot of the branch was made by a write with the same key, nothing is written again.
        options: Iceberg's write options: ``distribution_mode="hash"``, ``fanout_enabled=True``,
            ``target_file_size_bytes=…``, ``isolation_level="snapshot"``, …; ``docs/spark.md`` has all of them.

    Raises:
        SchemaResolutionError, MissingRequiredFieldError, AmbiguousColumnError: The columns do not fit the table.
        ConfigurationError: An argument, an option or a setting is wrong.
        CommitConflictError: Another writer changed what an overwrite replaces.
        CommitStateUnknownError: The catalog did not say whether the commit took place. No file was deleted.
        FormatkitError: What else writing and committing raise.
    """
    if mode == "merge" or mode == "upsert":
        of_writes: dict[str, Any] = {
            "where": where,
            "merge_schema": merge_schema,
            "create": create,
            "properties": properties,
            "partition_by": partition_by,
            "sort_by": sort_by,
            "table_properties": table_properties,
        }
        if given := [name for name, value in of_writes.items() if value]:
            raise ConfigurationError(f"mode={mode!r} does not take {', '.join(given)}")
        said: dict[str, Any] = {
            "file_format": file_format,
            "branch": branch,
            "snapshot_properties": snapshot_properties,
            "idempotency_key": idempotency_key,
        }
        return _merge(df, table, mode, {name: value for name, value in said.items() if value is not None} | options)
    spark = df.sparkSession
    check_interpreter(spark)
    configuration = configuration_of(spark)
    asked = _asked(
        options,
        where=where,
        file_format=file_format,
        branch=branch,
        merge_schema=merge_schema,
        properties=properties,
        snapshot_properties=snapshot_properties,
        idempotency_key=idempotency_key,
    )
    _check_mode(mode, asked)
    assignment = assignment_of(
        configuration,
        case_sensitive=asked.case_sensitive,
        check_nullability=asked.check_nullability,
        check_ordering=asked.check_ordering,
    )
    new = None
    if create:
        new = NewTable(
            df.schema,
            partition_by=partition_by,
            sort_by=sort_by,
            properties=table_properties,
            case_sensitive=assignment.case_sensitive,
        )
    elif partition_by or sort_by or table_properties:
        raise ConfigurationError("partition_by, sort_by and table_properties are of a new table; say create=True, too")
    with opened_table(table, catalogs_of(configuration), new=new) as opened:
        return _Write(spark, opened, mode, asked, assignment, configuration).run(df)


def _merge(df: DataFrame, table: Table | str, mode: MergeMode, arguments: dict[str, Any]) -> MergeResult:
    if "merge_mode" in arguments:
        arguments["mode"] = arguments.pop("merge_mode")
    return merge(df, table, **arguments) if mode == "merge" else upsert(df, table, **arguments)


def _asked(
    options: Mapping[str, Any],
    *,
    properties: Mapping[str, str] | None,
    snapshot_properties: Mapping[str, str] | None,
    where: str | BooleanExpression | None,
    merge_schema: bool,
    **named: Any,
) -> WriteOptions:
    parsed = parse_write_options(options)
    said = {name: value for name, value in named.items() if value is not None}
    if where is not None:
        said["where"] = where
    for name in said:
        if getattr(parsed, name) is not None:
            raise ConfigurationError(f"{name} is said twice, by an argument and by an option; give one of them")
    return replace(
        parsed,
        **said,
        merge_schema=merge_schema or parsed.merge_schema,
        properties={**parsed.properties, **(properties or {})},
        snapshot_properties={**parsed.snapshot_properties, **(snapshot_properties or {})},
    )


def _check_mode(mode: str, options: WriteOptions) -> None:
    modes = (*get_args(WriteMode), *get_args(MergeMode))
    if mode not in modes:
        raise ConfigurationError(f"mode must be {', '.join(map(repr, modes))}, not {mode!r}")
    refuse_stream_options(options)
    if options.where is not None and (mode != "overwrite" or options.dynamic):
        message = "where= says which rows an overwrite replaces; an append replaces none, and overwrite-partitions"
        raise ConfigurationError(f"{message} finds out by itself")


def target_branch(table: Table, branch: str | None, configuration: Mapping[str, str]) -> tuple[str, str | None]:
    """Where to commit, and the WAP id under which the snapshot is staged instead of being published.

    Write-audit-publish is asked for by the session, for tables whose property `write.wap.enabled` is true.

    Raises:
        ConfigurationError: Two of branch, `spark.wap.branch` and `spark.wap.id` are given.
    """
    if table.metadata.properties.get(_WAP_ENABLED, "false").lower() != "true":
        return branch or _MAIN, None
    wap_id, wap_branch = configuration.get(_WAP_ID), configuration.get(_WAP_BRANCH)
    if wap_id and (wap_branch or branch):
        other = f"{_WAP_BRANCH} is {wap_branch!r}" if wap_branch else f"the branch is {branch!r}"
        raise ConfigurationError(f"{_WAP_ID} is {wap_id!r} and {other}; a snapshot is staged or committed to a branch")
    if wap_branch and branch not in (None, wap_branch):
        raise ConfigurationError(f"the branch is {branch!r} and {_WAP_BRANCH} is {wap_branch!r}; give one of them")
    return wap_branch or branch or _MAIN, wap_id


class _Write:
    """One call of `write`, for a table that is there."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        mode: WriteMode,
        options: WriteOptions,
        assignment: Assignment,
        configuration: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._table = table
        self._mode = "overwrite-partitions" if mode == "overwrite" and options.dynamic else mode
        self._options = options
        self._assignment = assignment
        self._configuration = configuration
        self._name = shown_name(table)
        self._branch, self._wap_id = target_branch(table, options.branch, configuration)

    def run(self, df: DataFrame) -> WriteResult:
        if self._options.merge_schema:
            evolve(self._table, df.schema, case_sensitive=self._assignment.case_sensitive)
        rows = fitted(df, self._table.schema(), self._assignment)
        config = write_config(self._table, self._options)
        wap = {} if self._wap_id is None else {"wap.id": self._wap_id}
        job = WriteJob(
            self._table,
            branch=self._branch,
            snapshot_properties={**self._options.snapshot_properties, **wap},
            idempotency_key=self._options.idempotency_key,
            staged=self._wap_id is not None,
            config=config,
            clustered=False if self._options.fanout else None,
            speculation=speculates(self._configuration),
            engine=engine_properties(self._spark, self._configuration),
        )
        if self._options.idempotency_key is not None:
            earlier = job.committed()
            if earlier is not None:
                return WriteResult(earlier, 0, 0, 0, repeated=True)
        try:
            messages, change = self._run_jobs(rows, job)
        except BaseException:
            job.abort()
            raise
        snapshot = job.commit(messages, change)
        if snapshot is None or job.is_own(snapshot):
            files = sum(len(message.files) for message in messages)
            return WriteResult(
                snapshot, sum(each.rows for each in messages), files, sum(each.bytes for each in messages)
            )
        return WriteResult(snapshot, 0, 0, 0, repeated=True)

    def _run_jobs(self, rows: DataFrame, job: WriteJob) -> tuple[list[TaskFiles], ChangeOf]:
        if self._mode == "append":
            return self._write_rows(rows, job), job.append
        base = Base.of(self._table, self._branch, None)

        def replaced(files: tuple[DataFile, ...], removal: Removal, predicate: BooleanExpression) -> Change | None:
            return job.replace(files, removal, predicate, self._options, base.snapshot_id)

        if self._mode == "overwrite-partitions":
            if self._options.spec_id not in (None, self._table.metadata.default_spec_id):
                raise ConfigurationError(
                    "partitions are replaced by the table's current spec; leave out output-spec-id"
                )
            messages = self._write_rows(rows, job)
            return messages, lambda files: replaced(files, remove_partitions(base, files), AlwaysTrue())
        where = self._options.where
        predicate = base.bind(where, case_sensitive=self._assignment.case_sensitive)
        removal = Removal()
        whole, parts = files_with_matches(base, predicate)
        removal.remove_files(whole)
        messages = self._write_rows(rows, job)
        if parts.tasks:
            copied = self._copy(base, parts, job)
            for each in copied:
                removal.removed.update(each.replaced)
            messages += copied
        return messages, lambda files: replaced(files, removal, predicate)

    def _write_rows(self, rows: DataFrame, job: WriteJob) -> list[TaskFiles]:
        config = job.task.config
        chosen = distribution_of(config, self._options)
        adaptive = self._configuration.get("spark.sql.adaptive.enabled", "true").lower() == "true"
        with shuffle_settings(self._spark, chosen, self._configuration):
            given = distribute(rows, config, chosen, adaptive=adaptive)
            return run_tasks(given, job.task, f"formatkit write {self._name}")

    def _copy(self, base: Base, parts: Any, job: WriteJob) -> list[CopiedFiles]:
        work, matching, everything = copy_work(base, parts, parallelism(self._spark))
        config = write_config(self._table, self._options, base.stored_schema)
        function = CopyRows(replace(job.task, config=config, clustered=None), matching, everything)
        messages = run_on_work(self._spark, work, function, f"formatkit copy {self._name}")
        return [message for message in messages if isinstance(message, CopiedFiles)]
