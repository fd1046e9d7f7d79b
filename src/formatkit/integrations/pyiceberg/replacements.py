"""What takes the place of which function of pyiceberg."""
# ruff: noqa: SLF001 - these are the places where pyiceberg's reading can be taken over without leaving one out

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import wraps
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.update.snapshot import _SnapshotProducer

from formatkit.integrations.pyiceberg.filters import arrow_filter
from formatkit.integrations.pyiceberg.patches import Patches
from formatkit.integrations.pyiceberg.scans import rows_of
from formatkit.integrations.pyiceberg.tasks import plan_files, rows_of_tasks
from formatkit.registry import FormatRegistry

__all__ = ["replace_deletes", "replace_scans", "replace_tasks"]


def replace_scans(patches: Patches, registry: FormatRegistry) -> None:
    """Scans of tables; `to_pandas`, `to_polars`, `to_duckdb` and so on are built on them."""
    pyicebergs_to_arrow = DataScan.to_arrow
    pyicebergs_reader = DataScan.to_arrow_batch_reader
    pyicebergs_count = DataScan.count
    pyicebergs_plan = DataScan.plan_files

    def is_planned_here(scan: DataScan) -> bool:
        """Whether the files are for formatkit to find; a catalog's server or a subclass may do it."""
        return type(scan).plan_files is pyicebergs_plan and not scan._should_use_server_side_planning()

    @wraps(pyicebergs_to_arrow)
    def to_arrow(self: DataScan, dictionary_columns: tuple[str, ...] = ()) -> pa.Table:
        if not is_planned_here(self):
            return pyicebergs_to_arrow(self, dictionary_columns)
        return rows_of(self, dictionary_columns, registry).to_table()

    @wraps(pyicebergs_reader)
    def to_arrow_batch_reader(self: DataScan, dictionary_columns: tuple[str, ...] = ()) -> pa.RecordBatchReader:
        if not is_planned_here(self):
            return pyicebergs_reader(self, dictionary_columns)
        return rows_of(self, dictionary_columns, registry).to_reader()

    @wraps(pyicebergs_count)
    def count(self: DataScan) -> int:
        if not is_planned_here(self):
            return pyicebergs_count(self)
        if not self.snapshot():
            return 0
        # As in pyiceberg, neither the selection nor the limit matters.
        return rows_of(self.update(selected_fields=("*",), limit=None), (), registry).scan.count()

    patches.replace(DataScan, "to_arrow", to_arrow)
    patches.replace(DataScan, "to_arrow_batch_reader", to_arrow_batch_reader)
    patches.replace(DataScan, "count", count)


def replace_tasks(patches: Patches, registry: FormatRegistry) -> None:
    """Planning and reading in two steps, as copy-on-write, incremental scans and other libraries do it."""

    @wraps(DataScan._plan_files_local)
    def _plan_files_local(self: DataScan) -> Iterable[FileScanTask]:
        snapshot = self.snapshot()
        return plan_files(self, snapshot, registry) if snapshot else []

    @wraps(ArrowScan.to_table)
    def to_table(self: ArrowScan, tasks: Iterable[FileScanTask]) -> pa.Table:
        return rows_of_tasks(self, tasks, registry).to_table()

    @wraps(ArrowScan.to_record_batches)
    def to_record_batches(self: ArrowScan, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        return rows_of_tasks(self, tasks, registry).to_batches()

    patches.replace(DataScan, "_plan_files_local", _plan_files_local)
    patches.replace(ArrowScan, "to_table", to_table)
    patches.replace(ArrowScan, "to_record_batches", to_record_batches)


def replace_deletes(patches: Patches) -> None:
    """Which files a delete drops unread.

    Their metrics decide, and take a null for a match of ``!=``, whereas a file that is rewritten keeps such rows.
    """
    pyicebergs = _SnapshotProducer.delete_by_predicate

    @wraps(pyicebergs)
    def delete_by_predicate(self: Any, predicate: BooleanExpression, case_sensitive: bool = True) -> None:
        pyicebergs(self, arrow_filter(predicate), case_sensitive)

    patches.replace(_SnapshotProducer, "delete_by_predicate", delete_by_predicate)
