"""What runs on the driver: source and table are joined, executors do the work, and one snapshot is committed."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.functions as f
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import UUIDType
from pyspark.sql import Column, DataFrame, SparkSession

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract.metadata_columns import DELETED, FILE, POS, ROW_ID
from formatkit.errors import ConfigurationError, InternalError, InvalidDataError
from formatkit.kernel.names import Path, dotted
from formatkit.spark.catalogs import catalogs_of, shown_name
from formatkit.spark.frames import dataframe
from formatkit.spark.interpreter import check_interpreter
from formatkit.spark.session import configuration_of, map_in_arrow, quoted
from formatkit.spark.types import as_arrow
from formatkit.spark.writing.commit import WriteJob
from formatkit.spark.writing.incoming import from_spark
from formatkit.spark.writing.jobs import engine_properties, report_tasks, speculates
from formatkit.spark.writing.merge.applying import ApplyRows, MergedFiles, SentBase
from formatkit.spark.writing.merge.deciding import PARCELS, DecideRows, SummariseKeys
from formatkit.spark.writing.schema import Assignment, assignment_of, fitted
from formatkit.spark.writing.tables import opened_table
from formatkit.spark.writing.task_errors import typed_errors
from formatkit.write import MergeResult, TableWriteConfig
from formatkit.write.commit import Change
from formatkit.write.derive import derived_schema
from formatkit.write.matching import Matcher
from formatkit.write.merge.clauses import Clauses, ClausesGiven
from formatkit.write.merge.operation import columns_to_read, key_pairs
from formatkit.write.merge.rules import KeyPair, Rules
from formatkit.write.merge.sides import SOURCE, TARGET, Sides
from formatkit.write.operations.base import ALL_COLUMNS, Base
from formatkit.write.operations.keys import KeyColumns, KeySummary
from formatkit.write.operations.merge_on_read import refuse_version_1
from formatkit.write.operations.removal import Mode, Removal, check_mode

__all__ = ["merge", "upsert"]

_DISTRIBUTION = "write.merge.distribution-mode"


def merge(
    df: DataFrame,
    table: Table | str,
    on: str | Sequence[str] | Mapping[str, str] | None = None,
    matched: ClausesGiven = "update",
    not_matched: ClausesGiven = "insert",
    not_matched_by_source: ClausesGiven = None,
    mode: Mode = "merge-on-read",
    file_format: str | None = None,
    *,
    case_sensitive: bool | None = None,
    branch: str = "main",
    snapshot_properties: Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
    unique_keys: bool = False,
) -> MergeResult:
    """Merge the rows of a DataFrame into a table, as `formatkit.merge` does, in one snapshot that executors write.

    Args:
        df: The source, of a classic session or of Spark Connect. It is computed once and kept by the executors until
            the merge is done; if they lose it the merge fails. Columns that the table has are cast to their types as
            Spark's own INSERT does.
        table: A pyiceberg table, which shows the snapshot afterwards, or a name in a catalog.
        on: As in `formatkit.merge`, and so are the clauses and `mode`.
        matched: What is done with rows of the table that have source rows with their key.
        not_matched: What is done with source rows whose key the table lacks.
        not_matched_by_source: What is done with rows of the table whose key the source lacks.
        mode: How old rows go.
        file_format: For new files; by default `write.delete.format.default` for deletes, and `write.format.default`.
        case_sensitive: Whether case matters in names; `spark.sql.caseSensitive` if left out.
        branch: The branch to change.
        snapshot_properties: What the snapshot's summary is to say as well.
        idempotency_key: If a snapshot of the branch was made by a write with the same key, nothing is done again.
        unique_keys: Refuse a source with two rows of one key, or with null in a key, as an upsert does.

    Returns:
        What was done. If an earlier write with the same key did it, no row is counted.

    Raises:
        InvalidDataError: A clause applies to one row of the table with two source rows; keys are not unique.
        UnsupportedError: Spark has no type for a column that is read; merge-on-read of a table of version 1.
        FormatkitError: What else `formatkit.merge` and `formatkit.spark.write` raise.
    """
    check_mode(mode)
    clauses = Clauses.of(matched, not_matched, not_matched_by_source)
    spark = df.sparkSession
    check_interpreter(spark)
    configuration = configuration_of(spark)
    assignment = assignment_of(configuration, case_sensitive=case_sensitive)
    with opened_table(table, catalogs_of(configuration)) as opened:
        base = Base.of(opened, branch, None)
        if mode == "merge-on-read":
            refuse_version_1(base)
        job = WriteJob(
            opened,
            branch=branch,
            snapshot_properties=snapshot_properties,
            idempotency_key=idempotency_key,
            config=TableWriteConfig.of(
                base.metadata, file_format=file_format, catalog_properties=opened.catalog.properties
            ),
            speculation=speculates(configuration),
            engine=engine_properties(spark, configuration),
        )
        if idempotency_key is not None and (earlier := job.committed()) is not None:
            return MergeResult(rows_updated=0, rows_deleted=0, rows_inserted=0, snapshot=earlier)
        work = _FrameMerge(spark, base, clauses, assignment, job, mode, file_format, unique_keys=unique_keys)
        return work.run(df, on)


def upsert(
    df: DataFrame,
    table: Table | str,
    join_columns: str | Sequence[str] | None = None,
    mode: Mode = "merge-on-read",
    file_format: str | None = None,
    **merging: Any,
) -> MergeResult:
    """Update the rows whose keys are in a DataFrame, and insert the others, as `formatkit.upsert` does.

    Args:
        df: The rows, each with a key of its own that is nowhere null.
        table: As in `merge`.
        join_columns: The columns that are the key; the identifier fields of the table's schema by default.
        mode: How old rows go.
        file_format: For new files.
        merging: `case_sensitive`, `branch`, `snapshot_properties` and `idempotency_key`, as in `merge`.
    """
    return merge(df, table, join_columns, mode=mode, file_format=file_format, unique_keys=True, **merging)


class _FrameMerge:
    """One merge of a DataFrame."""

    def __init__(
        self,
        spark: SparkSession,
        base: Base,
        clauses: Clauses,
        assignment: Assignment,
        job: WriteJob,
        mode: Mode,
        file_format: str | None,
        *,
        unique_keys: bool,
    ) -> None:
        self._unique_keys = unique_keys
        self._spark = spark
        self._base = base
        self._clauses = clauses
        self._assignment = assignment
        self._job = job
        self._mode: Mode = mode
        self._file_format = file_format

    def run(self, df: DataFrame, on: str | Sequence[str] | Mapping[str, str] | None) -> MergeResult:
        base, case_sensitive = self._base, self._assignment.case_sensitive
        rows = fitted(df, base.schema, self._assignment, partial=True)
        source = _source_schema(rows, base.schema)
        keys = key_pairs(base.schema, source, on, case_sensitive=case_sensitive)
        target = columns_to_read(
            base.schema, self._clauses, Sides(source, base.schema), keys, case_sensitive=case_sensitive
        )
        sides = Sides(source, target)
        # What is wrong with clauses and keys is said before anything runs.
        Rules(self._clauses, sides, base.schema, keys, case_sensitive=case_sensitive)
        _check_keys(source, base.schema, keys)
        # A source that is computed anew after a failure might have other rows: some would be lost, others be twice.
        fixed = rows.localCheckpoint()
        if self._unique_keys:
            _refuse_repeated(fixed, keys)
        try:
            where = self._filter(fixed, source, keys)
            messages = self._work(fixed, sides, keys, where)
            self._refuse_several(messages, keys)
        except BaseException:
            self._job.abort()
            raise
        removal = _together(messages)
        snapshot = self._job.commit(messages, lambda files: self._change(files, removal, where))
        updated, removed = sum(each.updated for each in messages), sum(each.removed for each in messages)
        inserted = sum(each.inserted for each in messages)
        if snapshot is not None and not self._job.is_own(snapshot):
            updated = removed = inserted = 0
        return MergeResult(
            rows_updated=updated, rows_deleted=removed - updated, rows_inserted=inserted, snapshot=snapshot
        )

    def _filter(self, source: DataFrame, schema: Schema, keys: Sequence[KeyPair]) -> BooleanExpression:
        """What rows of the table have to do with the merge: those that may have a key of the source."""
        if self._clauses.not_matched_by_source:
            return AlwaysTrue()
        wanted = KeyColumns(self._base.schema, [target for target, _ in keys])
        tops = {own[0].name: own[0] for _, own in keys}
        narrow = source.select(*(f.col(quoted(name)) for name in tops))
        function = SummariseKeys(Schema(*tops.values()), self._base.schema, keys)
        with typed_errors():
            rows = map_in_arrow(narrow, function, PARCELS).collect()
        found: list[list[KeySummary]] = [pickle.loads(row[1]) for row in rows]  # noqa: S301 - a task of ours made it
        if not found:
            return wanted.filter([])
        return wanted.filter_by([KeySummary.together(list(parts)) for parts in zip(*found, strict=True)])

    def _work(
        self, source: DataFrame, sides: Sides, keys: Sequence[KeyPair], where: BooleanExpression
    ) -> list[MergedFiles]:
        base, clauses = self._base, self._clauses
        whole = sides.target is base.schema
        names = (ALL_COLUMNS,) if whole else tuple(field.name for field in sides.target.fields)
        lineage = (ROW_ID.name,) if base.has_lineage else ()
        scan = base.scan((*names, FILE.name, POS.name, *lineage), where)
        joined = _joined(source, dataframe(self._spark, scan), sides, keys, lineage, clauses)
        name = shown_name(self._job.table)
        decide = DecideRows(
            clauses,
            sides,
            base.schema,
            keys,
            self._assignment.case_sensitive,
            self._distribution(),
            title=f"formatkit merge {name}: decide",
        )
        columns = (*base.stored_columns, FILE.name, POS.name)
        if self._mode == "merge-on-read":
            columns = (FILE.name, POS.name, DELETED.name)
        config = self._job.task.config
        sent = SentBase.of(base, columns, {task.location for task in scan.tasks if not task.is_skipped}, config.trusted)
        apply = ApplyRows(
            sent,
            self._job.task.storage,
            self._job.write_id,
            self._mode,
            self._file_format,
            keeps_ids=base.has_lineage and clauses.updates,
            several=clauses.allows_several_matches,
            title=f"formatkit merge {name}",
        )
        parcels = map_in_arrow(joined, decide, PARCELS).repartition(f.col("task"))
        messages = report_tasks(parcels, apply, f"formatkit merge {name}")
        found = [message for message in messages if isinstance(message, MergedFiles)]
        if len(found) != len(messages):
            raise InternalError("a task of a merge reported something else; nothing was committed")
        return found

    def _distribution(self) -> PartitionSpec:
        """By which spec new rows are spread over tasks."""
        mode = self._base.metadata.properties.get(_DISTRIBUTION, "hash").lower()
        if mode not in ("none", "hash", "range"):
            raise ConfigurationError(
                f"the table's property {_DISTRIBUTION} is {mode!r}; it must be none, hash or range"
            )
        return UNPARTITIONED_PARTITION_SPEC if mode == "none" else self._base.metadata.spec()

    def _change(self, files: Iterable[DataFile], removal: Removal, where: BooleanExpression) -> Change | None:
        data = tuple(file for file in files if file.content == DataFileContent.DATA)
        if removal.is_empty and not data:
            return None
        return removal.change(data, base_snapshot_id=self._base.snapshot_id, conflict_filter=where, command="merge")

    def _refuse_several(self, messages: Sequence[MergedFiles], keys: Sequence[KeyPair]) -> None:
        row = next((message.several for message in messages if message.several is not None), None)
        if row is None:
            return
        tops = {target[0].name: target[0] for target, _ in keys}
        schema = Schema(*tops.values())
        columns = KeyColumns(schema, [target for target, _ in keys])
        text = f"row {row[1]} of {row[0]}"
        with self._base.scan_files((*tops, POS.name)).scan([row[0]]).to_batches() as batches:
            for batch in batches:
                chosen = batch.filter(pc.equal(batch.column(len(tops)), pa.scalar(row[1], pa.int64())))
                if chosen.num_rows:
                    text = columns.in_words(columns.of(chosen))
        raise InvalidDataError(
            f"several source rows change one row of the table, that with the key {text}, so it is not clear what "
            "becomes of it; leave one source row for each key, or let conditions choose one of them"
        )


def _source_schema(df: DataFrame, table: Schema) -> Schema:
    """The source's columns as Iceberg has them."""
    arrow = as_arrow(df.schema)
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in arrow], schema=arrow)
    return derived_schema(_nullable(from_spark(table)(empty).schema))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _check_keys(source: Schema, table: Schema, keys: Sequence[KeyPair]) -> None:
    """Raise `SchemaResolutionError` where a key column of the source does not fit the table's."""
    wanted = KeyColumns(table, [target for target, _ in keys])
    own = KeyColumns(source, [path for _, path in keys])
    Matcher(wanted.schema, ArrowBatch()).match(own.of(ArrowBatch().concat(source, [])).rename_columns(wanted.names))


def _refuse_repeated(source: DataFrame, keys: Sequence[KeyPair]) -> None:
    """Raise `InvalidDataError` where two rows have one key, or a part of a key is null."""
    names = [dotted(target) for target, _ in keys]
    columns = [_key(path, like=like).alias(f"k{number}") for number, (like, path) in enumerate(keys)]
    counted = source.select(*columns).groupBy(*(f"k{number}" for number in range(len(keys)))).count()
    is_wrong = f.col("count") > 1
    for number in range(len(keys)):
        is_wrong = is_wrong | f.col(f"k{number}").isNull()
    for *values, count in counted.filter(is_wrong).limit(1).collect():
        text = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        if None in values:
            raise InvalidDataError(f"a row of the data has no key: {text}, where None is null")
        raise InvalidDataError(f"{count} rows of the data have the same key, {text}; an upsert needs one for each key")


def _joined(
    source: DataFrame,
    target: DataFrame,
    sides: Sides,
    keys: Sequence[KeyPair],
    lineage: Sequence[str],
    clauses: Clauses,
) -> DataFrame:
    """Pairs of rows, and rows without a partner where clauses are about them."""
    own = source.select(
        f.struct(*(f.col(quoted(field.name)) for field in sides.source.fields)).alias(SOURCE),
        *(_key(path, like=like).alias(f"s{number}") for number, (like, path) in enumerate(keys)),
    )
    other = target.select(
        f.struct(*(f.col(quoted(field.name)) for field in sides.target.fields)).alias(TARGET),
        *(f.col(name) for name in (FILE.name, POS.name, *lineage)),
        *(_key(path, like=path).alias(f"t{number}") for number, (path, _) in enumerate(keys)),
    )
    condition = f.lit(True)
    for number in range(len(keys)):
        condition = condition & (f.col(f"s{number}") == f.col(f"t{number}"))
    sources, targets = bool(clauses.not_matched), bool(clauses.not_matched_by_source)
    how = "full" if sources and targets else "left" if sources else "right" if targets else "inner"
    pairs = own.join(other, condition, how)
    return pairs.select(SOURCE, TARGET, FILE.name, POS.name, *lineage)


def _key(path: Path, *, like: Path) -> Column:
    column = f.col(quoted(path[0].name))
    for field in path[1:]:
        column = column.getField(field.name)
    # Spark has text in place of uuids, which may be in capitals.
    return f.lower(column) if isinstance(like[-1].field_type, UUIDType) else column


def _together(messages: Sequence[MergedFiles]) -> Removal:
    removal = Removal()
    for message in messages:
        part = message.removal
        removal.added_deletes += part.added_deletes
        removal.removed |= part.removed
        removal.removed_deletes |= part.removed_deletes
        removal.referenced |= part.referenced
        removal.rows += part.rows
    return removal
