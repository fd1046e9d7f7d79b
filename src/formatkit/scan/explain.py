"""Says in words what a scan does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyiceberg.schema import Schema

from formatkit.errors import printable
from formatkit.kernel.predicates import conjuncts
from formatkit.scan.analysis import Analysis, analyse
from formatkit.scan.plan import Plan
from formatkit.scan.predicate_text import predicate_text
from formatkit.scan.pushdown import Pushdown, classify, conditions_left, files_decided
from formatkit.scan.running import Run
from formatkit.scan.tasks import FileTask
from formatkit.scan.wording import number, size

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a scan reads and what it leaves out. Printing it gives a page; `to_dict` gives plain values.

    Attributes:
        snapshot_id: What is read; None for a table without data and for single files.
        columns: The names of the output.
        filter: The whole filter.
        decided: For each part of the filter, in how many of the files that are read the metadata decides it, so that
            no row is tested.
        pushdown: How far the metadata goes for each part of the filter: ``exact``, ``inexact`` or ``none``.
        residuals: What rows are still tested for, with the number of files.
        limit: The most rows returned.
        manifests: How many manifests list data files.
        manifests_skipped: How many of those were not opened.
        files: How many data files the opened manifests list.
        files_read: How many data files are read.
        files_skipped: How many are not, by reason.
        hints_dropped: How many metrics and summaries of the table were not used because they cannot be true, by kind.
        formats: How many files of each format are read.
        deletes: How many delete files, or deletion vectors, of each kind apply to them.
        delete_rows: How many rows those have.
        tasks: How many pieces the work is cut into.
        bytes: The length of what is read, as stored.
        threads: How many tasks run side by side at most.
        run: What readers counted in the last run; None before the first.
        analysis: What the last run did and where its time went, if that was asked for.
    """

    snapshot_id: int | None
    columns: tuple[str, ...]
    filter: str
    decided: Mapping[str, int]
    pushdown: Mapping[str, Pushdown]
    residuals: Mapping[str, int]
    limit: int | None
    manifests: int
    manifests_skipped: int
    files: int
    files_read: int
    files_skipped: Mapping[str, int]
    hints_dropped: Mapping[str, int]
    formats: Mapping[str, int]
    deletes: Mapping[str, int]
    delete_rows: int
    tasks: int
    bytes: int
    threads: int
    run: Mapping[str, int] | None
    analysis: Analysis | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same facts as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{title:<10} {printable(text)}" for title, text in self._lines() if text]
        return "\n".join(lines)

    def _lines(self) -> Iterable[tuple[str, str]]:
        yield "scan", f"{number(self.files_read, 'file')} in {number(self.tasks, 'task')}, {size(self.bytes)}"
        yield "snapshot", str(self.snapshot_id or "")
        yield "columns", ", ".join(self.columns) or "none"
        yield "formats", _counts(self.formats)
        yield "deletes", f"{_counts(self.deletes)}: {number(self.delete_rows, 'row')}" if self.deletes else ""
        yield "filter", "" if self.filter == "true" else self.filter
        yield "limit", "" if self.limit is None else number(self.limit, "row")
        yield "skipped", self._skipped()
        yield "dropped", _counts(self.hints_dropped)
        for part, kind in self.pushdown.items():
            yield "pushdown", f"{part}: {kind}"
        for part, files in self.decided.items():
            share = "in every file" if files == self.files_read else f"in {files} of {number(self.files_read, 'file')}"
            yield "metadata", f"{part}: decided {share}" if files else ""
        for residual, files in self.residuals.items():
            tested = "no test" if residual == "true" else residual
            yield "rows", f"{tested}: {number(files, 'file')}" if self.filter != "true" else ""
        yield "threads", str(self.threads)
        yield "last run", _counts(self.run or {})
        if self.analysis is not None:
            yield from self.analysis.lines()

    def _skipped(self) -> str:
        reasons = {
            "partition": "by partition values",
            "metrics": "by column metrics",
            "empty": "because they are empty",
        }
        parts = [f"{number(count, 'file')} {reasons[reason]}" for reason, count in self.files_skipped.items()]
        if self.manifests_skipped:
            parts.append(f"{self.manifests_skipped} of {number(self.manifests, 'manifest')} unopened")
        return ", ".join(parts)


def explain(
    plan: Plan, schema: Schema, *, threads: int, limit: int | None, run: Run | None, analyze: bool = False
) -> Explanation:
    """Describe a plan, and its last run if there was one."""
    files = plan.files_read
    deletes = {(each.location, each.content_offset): each for task in files for each in task.deletes}.values()
    left = conditions_left(files)
    return Explanation(
        snapshot_id=plan.snapshot_id,
        columns=tuple(field.name for field in schema.fields),
        filter=predicate_text(plan.predicate),
        decided={predicate_text(part): files_decided(part, left) for part in conjuncts(plan.predicate)}
        if files
        else {},
        pushdown={predicate_text(part): kind for part, kind in classify(plan)},
        residuals=_residuals(files),
        limit=limit,
        manifests=plan.manifests,
        manifests_skipped=plan.manifests_skipped,
        files=plan.files,
        files_read=len(files),
        files_skipped=plan.skipped,
        hints_dropped=plan.dropped,
        formats=dict(Counter(task.file_format for task in files)),
        deletes=dict(Counter(each.kind for each in deletes)),
        delete_rows=sum(each.row_count for each in deletes),
        tasks=len(plan.tasks),
        bytes=sum(task.bytes_to_read for task in plan.tasks),
        threads=min(threads, max(len(plan.tasks), 1)),
        run=None if run is None else dict(run.counters),
        analysis=analyse(run) if analyze and run is not None else None,
    )


def _residuals(files: Iterable[FileTask]) -> dict[str, int]:
    """What is left of the filter, with the number of files. Many files share one expression, which is printed once."""
    texts: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for task in files:
        text = texts.get(id(task.residual))
        if text is None:
            text = texts[id(task.residual)] = predicate_text(task.residual)
        counts[text] += 1
    return dict(counts)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
