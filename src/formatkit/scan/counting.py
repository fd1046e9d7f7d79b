"""Counts rows without opening data files, where metadata and positions of deleted rows tell."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from pyiceberg.expressions import AlwaysTrue

from formatkit.scan.reading import TaskReader
from formatkit.scan.runner import run_in_order
from formatkit.scan.tasks import EQUALITY_DELETES, FileTask

__all__ = ["count_unopened"]


def count_unopened(reader: TaskReader[Any], tasks: Iterable[FileTask], threads: int) -> tuple[int, list[FileTask]]:
    """The rows of all files that need not be opened, and the tasks of the others."""
    keeps_deleted = reader.request.keep_deleted
    rows = 0
    with_deletes: list[FileTask] = []
    uncounted: list[FileTask] = []
    for task in tasks:
        deletes = () if keeps_deleted else task.deletes
        if (
            task.residual is not AlwaysTrue()
            or task.row_count is None
            or task.row_count < 0
            or any(each.kind == EQUALITY_DELETES for each in deletes)
        ):
            uncounted.append(task)
        elif task.split is not None and task.split.start > 0:
            # The task of the file's beginning stands for the whole file.
            continue
        elif deletes:
            with_deletes.append(task)
        else:
            rows += task.row_count
    return rows + _count_live(reader, with_deletes, threads), uncounted


def _count_live(reader: TaskReader[Any], tasks: list[FileTask], threads: int) -> int:
    loader = reader.delete_loader(tasks)

    def live_rows(task: FileTask) -> Iterator[int]:
        rows, deletes = task.row_count or 0, loader.deletes_of(task)
        # Some writers delete positions that the file does not have.
        first, end = np.searchsorted(deletes.positions, (0, rows)) if deletes is not None else (0, 0)
        yield rows - int(end - first)

    return sum(run_in_order(tasks, live_rows, threads=threads, buffer_bytes=sys.maxsize))
