"""`rewrite`: the same rows in other files."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import Self

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

from formatkit.errors import ConfigurationError
from formatkit.forks import cached
from formatkit.kernel import find_column
from formatkit.registry import FormatRegistry, default_registry
from formatkit.scan import FileTask
from formatkit.scan.sources import TableFiles
from formatkit.write.commit import Change, DeleteKey, UncommittedFiles, commit, enable_version3
from formatkit.write.commit.branches import branch_head
from formatkit.write.config import DEFAULT_FORMAT, TableWriteConfig
from formatkit.write.jobs import Engine, LocalEngine, Progress, Steps
from formatkit.write.jobs.leftovers import FILES_ID, remove_after_failure, try_to_remove_unreported
from formatkit.write.operations.base import Base, whole_files
from formatkit.write.operations.rewrite_plan import FileChoice, RewriteGroup, RewritePlan
from formatkit.write.operations.rewrite_task import RewriteTask, RewrittenFiles

__all__ = ["JOB_ID", "RewriteResult", "rewrite"]

JOB_ID = "formatkit.job-id"
"""In the summary of a snapshot: the job that made it, alone or with other snapshots."""

_FIRST_VERSION_WITH_AGES = 2
_FIRST_VERSION_WITH_LINEAGE = 3


@dataclass(frozen=True, kw_only=True)
class RewriteResult:
    """What a rewrite did, or would do.

    Attributes:
        plan: What was read.
        added_files: How many files took the place of those that were read.
        added_bytes: How long they are together.
        snapshots: The new snapshots; none after a dry run, and if there was nothing to do.
        job_id: Who gives it to another call lets that go on where this one was stopped.
    """

    plan: RewritePlan
    added_files: int = 0
    added_bytes: int = 0
    snapshots: tuple[Snapshot, ...] = ()
    job_id: str = ""

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest of the new snapshots."""
        return self.snapshots[-1] if self.snapshots else None

    def __str__(self) -> str:
        if not self.snapshots:
            return str(self.plan)
        commits = f" in {len(self.snapshots)} snapshots" if len(self.snapshots) > 1 else ""
        return f"{self.plan}\nwritten: {self.added_files:,} files, {self.added_bytes:,} bytes{commits}"


def rewrite(
    table: Table,
    file_format: str | None = None,
    where: str | BooleanExpression | None = None,
    target_file_size: int | None = None,
    *,
    sort: str | Sequence[str] | None = None,
    all_files: bool = False,
    set_default: bool = False,
    max_commits: int = 1,
    job_id: str | None = None,
    engine: Engine | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    case_sensitive: bool = True,
    branch: str = "main",
    snapshot_properties: Mapping[str, str] | None = None,
    registry: FormatRegistry | None = None,
) -> RewriteResult:
    """Write files of a table anew, in snapshots that change no row: a single one by default. The table shows them then.

    Files are chosen that have another format than the one that was asked for, deleted rows, an older partition spec, or
    a length that is far from the wanted one; single short files of a partition are left. Deleted rows are gone
    afterwards, and so are the delete files that nothing needs any more. Rows keep their lineage.

    Args:
        table: A table of a catalog.
        file_format: Write all files in this format. By default the format of a file is no reason to rewrite it, and new
            files are written as `write.format.default` says.
        where: Consider only files that may have rows which match.
        target_file_size: About how long files should be, in bytes; by default `write.target-file-size-bytes`.
        sort: Columns to sort the rows of each new file by, ``"a desc"`` for descending; nulls are last, then. By
            default the table's own sort order is used, and is no reason to rewrite a file.
        all_files: Rewrite files for which there is no reason, too.
        set_default: Set the table's `write.format.default` to `file_format`, before anything is rewritten, so that
            what others append meanwhile has it already.
        max_commits: Commit the work in at most so many parts. What was committed stays when the rest fails.
        job_id: A name for the job. A call with the name of one that was stopped goes on with what that did not commit:
            files that it has written are not written anew, unless rows of them were deleted since. Matters for `sort`
            and `all_files`, where nothing else tells them from the others. The next job needs another name. A new
            UUID by default.
        engine: Where files are read and written; in this process if left out. `formatkit.spark.SparkEngine(spark)` lets
            executors do it.
        dry_run: Only say what would be done: print the result.
        progress: Called with the rows that were read so far and with all that are to be read.
        case_sensitive: Whether case matters in names.
        branch: The branch to change; one that is not there yet begins at the main branch.
        snapshot_properties: What the summaries of the snapshots are to say as well.
        registry: Where formats are looked up; everything that is installed by default.

    Raises:
        CommitConflictError: Another writer removed the same files, or deleted rows of them.
        ColumnNotFoundError, AmbiguousColumnError, InvalidPredicateError, ConfigurationError: The arguments are wrong.
    """
    if max_commits < 1:
        raise ConfigurationError(f"max_commits must be at least 1, not {max_commits}")
    if set_default and file_format is None:
        raise ConfigurationError("set_default makes file_format the table's default; say which format")
    base = Base.of(table, branch, registry)
    predicate = base.bind(where, case_sensitive=case_sensitive)
    job = _Job(
        table=table,
        branch=branch,
        registry=registry,
        file_format=file_format,
        target_file_bytes=target_file_size,
        sort=[sort] if isinstance(sort, str) else sort,
        case_sensitive=case_sensitive,
        job_id=job_id or str(uuid.uuid4()),
        engine=engine or LocalEngine(),
        properties=snapshot_properties or {},
    )
    config = job.config(base)
    plan = _plan(base, predicate, config, file_format, "sort" if sort else "all files" if all_files else None, job)
    if dry_run:
        return RewriteResult(plan=plan, job_id=job.job_id)
    (registry or default_registry()).plugin(config.file_format, pa.RecordBatch)  # better here than in a task
    if set_default:
        _set_default(table, config.file_format)
    pieces = plan.pieces(job.engine.parallelism)
    steps = Steps(progress, plan.rows)
    size = max(1, -(-len(pieces) // max_commits))
    commits = [job.run(pieces[start : start + size], steps) for start in range(0, len(pieces), size)]
    added = [file for commit in commits for file in commit.files]
    return RewriteResult(
        plan=plan,
        added_files=len(added),
        added_bytes=sum(file.file_size_in_bytes for file in added),
        snapshots=tuple(commit.snapshot for commit in commits if commit.snapshot is not None),
        job_id=job.job_id,
    )


@dataclass(frozen=True)
class _Committed:
    files: tuple[DataFile, ...] = ()
    snapshot: Snapshot | None = None


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What is done, in one commit or in several."""

    table: Table
    branch: str
    registry: FormatRegistry | None
    file_format: str | None
    target_file_bytes: int | None
    sort: Sequence[str] | None
    case_sensitive: bool
    job_id: str
    engine: Engine
    properties: Mapping[str, str]

    def config(self, base: Base) -> TableWriteConfig:
        return TableWriteConfig.of(
            base.metadata,
            file_format=self.file_format,
            schema=base.stored_schema,
            sort_order=self._order(base.schema),
            target_file_bytes=self.target_file_bytes,
            catalog_properties=base.catalog_properties,
        )

    def wrote(self, location: str) -> bool:
        """Whether an earlier commit of the same job added a file."""
        name = location.rpartition("/")[2]
        return any(f"-{each}-" in name for each in self._files_ids)

    @cached
    def _files_ids(self) -> frozenset[str]:
        metadata = self.table.metadata
        said = (each.summary.additional_properties for each in _history(metadata, self.branch) if each.summary)
        return frozenset(each[FILES_ID] for each in said if each.get(JOB_ID) == self.job_id and FILES_ID in each)

    def run(self, pieces: Sequence[RewriteGroup], steps: Steps) -> _Committed:
        """Write the files of some pieces anew, and commit that.

        It begins at the table as it is now: what this job committed before has moved it on, and others may have.
        """
        base = Base.of(self.table, self.branch, self.registry)
        files = base.scan_files(base.stored_columns)
        present = [[each.location for each in piece.files if each.location in files] for piece in pieces]
        task = RewriteTask(
            reader=files.reader(self.engine.threads),
            config=self.config(base),
            storage=TableFiles(self.table.io),
            files_id=str(uuid.uuid4()),
            registry=self.registry,
        )
        work = [files.bucket(locations) for locations in present]
        rewritten = list(files.tasks(chain.from_iterable(present)))
        if not rewritten:
            return _Committed()
        with _Reported(self.table.io, task, self.engine) as reported:
            with closing(self.engine.run(work, task, steps.tell)) as results:
                for piece, result in results:
                    reported.add(result)
                    steps.finish(piece, pieces[piece].rows)
            change = Change(
                operation=Operation.REPLACE,
                added=tuple(reported.data_files),
                removed=frozenset(file.location for file in rewritten),
                removed_deletes=_unneeded_deletes(base, rewritten),
                base_snapshot_id=base.snapshot_id,
                data_sequence_number=_data_sequence_number(base, rewritten),
                properties={
                    **self.engine.properties,
                    **self.properties,
                    JOB_ID: self.job_id,
                    FILES_ID: task.files_id,
                },
            )
            snapshot = commit(self.table, change, branch=self.branch, files=reported.files)
        return _Committed(change.added, snapshot)

    def _order(self, schema: Schema) -> SortOrder | None:
        return None if self.sort is None else _sort_order(schema, self.sort, case_sensitive=self.case_sensitive)


class _Reported:
    """The files that pieces report. On leaving, those that are not committed are deleted, and what nobody reported."""

    def __init__(self, io: FileIO, task: RewriteTask, engine: Engine) -> None:
        self._io = io
        self._task = task
        self._engine = engine
        self._retried = False
        self.files = UncommittedFiles(io)
        self.data_files: list[DataFile] = []

    def add(self, result: RewrittenFiles) -> None:
        self._retried |= result.retried
        self.data_files += result.files
        for file in result.files:
            self.files.add(file.file_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.files.__exit__(kind, error, trace)
        # Those that were reported may be in the table by now, whatever the error.
        reported = [file.file_path for file in self.data_files]
        names = (self._task.config, self._io, self._task.files_id, reported)
        failed = error is not None
        if self._retried or self._engine.may_leave_files(failed=failed):
            remove_after_failure(*names) if failed else try_to_remove_unreported(*names, reported)


def _set_default(table: Table, file_format: str) -> None:
    if table.metadata.properties.get(DEFAULT_FORMAT) != file_format:
        if table.metadata.format_version >= _FIRST_VERSION_WITH_LINEAGE:
            enable_version3()
        with table.transaction() as transaction:
            transaction.set_properties({DEFAULT_FORMAT: file_format})


def _history(metadata: TableMetadata, branch: str) -> Iterator[Snapshot]:
    return iter(ancestors_of(branch_head(metadata, branch), metadata) if metadata.snapshots else ())


def _plan(
    base: Base,
    where: BooleanExpression,
    config: TableWriteConfig,
    file_format: str | None,
    other_reason: str | None,
    job: _Job,
) -> RewritePlan:
    considered = {task.location for task in base.scan((), where).tasks if not task.is_skipped}
    files = [file for file in base.scan_files(()).files if file.location in considered]
    choice = FileChoice(
        metadata=base.metadata,
        target_file_bytes=config.target_file_bytes,
        file_format=file_format.lower() if file_format is not None else None,
        other_reason=other_reason,
        is_done=job.wrote,
    )
    return RewritePlan(
        groups=tuple(choice.groups(files)),
        files=len(files),
        file_format=config.file_format,
        target_file_bytes=config.target_file_bytes,
    )


def _data_sequence_number(base: Base, files: Iterable[FileTask]) -> int | None:
    """The age of the rows: what was deleted up to the base is gone, and what others delete meanwhile must go, too.

    That is not so for rows that change partition, where equality deletes of the old one would not find them. Such rows
    are new, and the commit refuses to get past deletes of them.
    """
    moved = any(file.spec_id != base.metadata.default_spec_id for file in files)
    if moved or base.snapshot is None or base.metadata.format_version < _FIRST_VERSION_WITH_AGES:
        return None
    return base.snapshot.sequence_number


def _unneeded_deletes(base: Base, rewritten: Iterable[FileTask]) -> frozenset[DeleteKey]:
    """The delete files that apply to nothing but the files that go."""
    gone = {file.location for file in rewritten}
    if not any(file.deletes for file in rewritten):
        return frozenset()
    candidates, needed = set[DeleteKey](), set[DeleteKey]()
    for file in whole_files(base.scan(()).tasks):
        keys = {(each.location, each.content_offset) for each in file.deletes}
        (candidates if file.location in gone else needed).update(keys)
    return frozenset(candidates - needed)


def _sort_order(schema: Schema, columns: Sequence[str], *, case_sensitive: bool) -> SortOrder:
    fields = []
    for text in columns:
        name = text.removesuffix(" desc")
        fields.append(
            SortField(
                source_id=find_column(schema, name, case_sensitive=case_sensitive)[-1].field_id,
                transform=IdentityTransform(),
                direction=SortDirection.ASC if name == text else SortDirection.DESC,
                null_order=NullOrder.NULLS_LAST,
            )
        )
    return SortOrder(*fields)
