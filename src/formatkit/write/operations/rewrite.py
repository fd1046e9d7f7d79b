"""`rewrite`: the same rows in other files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

from formatkit.kernel import find_column
from formatkit.registry import FormatRegistry
from formatkit.scan import FileTask
from formatkit.write.commit import Change, DeleteKey, UncommittedFiles, commit
from formatkit.write.config import TableWriteConfig
from formatkit.write.operations.base import Base, whole_files
from formatkit.write.operations.output import Output
from formatkit.write.operations.rewrite_plan import FileChoice, RewritePlan

__all__ = ["Progress", "RewriteResult", "rewrite"]

_FIRST_VERSION_WITH_AGES = 2

Progress = Callable[[int, int], None]
"""Is told how many rows were read, and how many there are to read."""


@dataclass(frozen=True, kw_only=True)
class RewriteResult:
    """What a rewrite did, or would do.

    Attributes:
        plan: What was read.
        added_files: How many files took the place of those that were read.
        added_bytes: How long they are together.
        snapshot: The new snapshot; None after a dry run, and if there was nothing to do.
    """

    plan: RewritePlan
    added_files: int = 0
    added_bytes: int = 0
    snapshot: Snapshot | None = None

    def __str__(self) -> str:
        if self.snapshot is None:
            return str(self.plan)
        return f"{self.plan}\nwritten: {self.added_files:,} files, {self.added_bytes:,} bytes"


def rewrite(
    table: Table,
    file_format: str | None = None,
    where: str | BooleanExpression | None = None,
    target_file_size: int | None = None,
    *,
    sort: str | Sequence[str] | None = None,
    all_files: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    case_sensitive: bool = True,
    branch: str = "main",
    snapshot_properties: Mapping[str, str] | None = None,
    registry: FormatRegistry | None = None,
) -> RewriteResult:
    """Write files of a table anew, in one snapshot that changes no row. The table object then shows it.

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
        dry_run: Only say what would be done: print the result.
        progress: Called with the rows that were read so far and with all that are to be read.
        case_sensitive: Whether case matters in names.
        branch: The branch to change; one that is not there yet begins at the main branch.
        snapshot_properties: What the snapshot's summary is to say as well.
        registry: Where formats are looked up; everything that is installed by default.

    Raises:
        CommitConflictError: Another writer removed the same files, or deleted rows of them.
        ColumnNotFoundError, AmbiguousColumnError, InvalidPredicateError, ConfigurationError: The arguments are wrong.
    """
    base = Base.of(table, branch, registry)
    predicate = base.bind(where, case_sensitive=case_sensitive)
    order = None if sort is None else _sort_order(base.schema, sort, case_sensitive=case_sensitive)
    config = TableWriteConfig.of(base.metadata, file_format=file_format, target_file_bytes=target_file_size)
    plan = _plan(base, predicate, config, file_format, "sort" if sort else "all files" if all_files else None)
    if dry_run or not plan.groups:
        return RewriteResult(plan=plan)
    with UncommittedFiles(table.io) as files:
        output = Output(base, table.io, files, file_format, target_file_size)
        added = _write(base, plan, output, order, progress or _ignore)
        change = Change(
            operation=Operation.REPLACE,
            added=added,
            removed=frozenset(file.location for file in plan.rewritten),
            removed_deletes=_unneeded_deletes(base, plan.rewritten),
            base_snapshot_id=base.snapshot_id,
            data_sequence_number=_data_sequence_number(base, plan.rewritten),
            properties=snapshot_properties or {},
        )
        snapshot = commit(table, change, branch=branch, files=files)
    size = sum(file.file_size_in_bytes for file in added)
    return RewriteResult(plan=plan, added_files=len(added), added_bytes=size, snapshot=snapshot)


def _plan(
    base: Base, where: BooleanExpression, config: TableWriteConfig, file_format: str | None, other_reason: str | None
) -> RewritePlan:
    considered = {task.location for task in base.scan((), where).tasks if not task.is_skipped}
    files = [file for file in base.scan_files(()).files if file.location in considered]
    choice = FileChoice(
        metadata=base.metadata,
        target_file_bytes=config.target_file_bytes,
        file_format=file_format.lower() if file_format is not None else None,
        other_reason=other_reason,
    )
    return RewritePlan(
        groups=tuple(choice.groups(files)),
        files=len(files),
        file_format=config.file_format,
        target_file_bytes=config.target_file_bytes,
    )


def _write(
    base: Base,
    plan: RewritePlan,
    output: Output,
    order: SortOrder | None,
    progress: Progress,
) -> tuple[DataFile, ...]:
    files = base.scan_files(base.stored_columns)
    added: list[DataFile] = []
    before = 0
    for group in plan.groups:
        rows = files.scan(file.location for file in group.files)
        with output.data_writer(base.stored_schema, order) as writer, rows.to_batches() as batches:
            read = before
            for batch in batches:
                writer.write(batch)
                read += batch.num_rows
                progress(read, plan.rows)
            added += writer.close()
        before += group.rows  # deleted rows are read as well, but do not arrive here
        progress(before, plan.rows)
    return tuple(added)


def _ignore(rows: int, all_rows: int) -> None:
    pass


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


def _sort_order(schema: Schema, columns: str | Sequence[str], *, case_sensitive: bool) -> SortOrder:
    fields = []
    for text in [columns] if isinstance(columns, str) else columns:
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
