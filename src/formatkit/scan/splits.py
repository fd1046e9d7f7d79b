"""Cuts files into parts that can be read side by side."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import pairwise

from formatkit.contract.options import Split
from formatkit.scan.tasks import FileTask

__all__ = ["cut_tasks", "join_parts", "split_tasks"]

_LEAST_BYTES = 1 << 20
_MOST_BYTES = 8 << 20
_PARTS_PER_THREAD = 4


def split_tasks(tasks: Sequence[FileTask], splittable: Container[str], threads: int) -> tuple[FileTask, ...]:
    """The same work in parts that keep all threads busy until the end; order is kept.

    Parts that are read ahead wait in memory for their turn, which is why they are not large.

    Args:
        tasks: Whole files.
        splittable: The formats that can read a part of a file.
        threads: How many tasks will be read side by side.
    """
    if threads <= 1:
        return tuple(tasks)
    total = sum(task.bytes_to_read for task in tasks)
    return cut_tasks(tasks, splittable, max(_LEAST_BYTES, min(_MOST_BYTES, total // (threads * _PARTS_PER_THREAD))))


def cut_tasks(tasks: Sequence[FileTask], splittable: Container[str], part_bytes: int) -> tuple[FileTask, ...]:
    """The same work in parts of at least `part_bytes`, but for the last one of a file; order is kept."""
    return tuple(
        part for task in tasks for part in (_split(task, part_bytes) if task.file_format in splittable else (task,))
    )


def join_parts(tasks: Sequence[FileTask]) -> list[FileTask]:
    """The same work with parts of a file that follow one another as one part; order is kept."""
    joined: list[FileTask] = []
    for task in tasks:
        split = task.split
        if split is not None and joined:
            last = joined[-1]
            if last.split is not None and last.split.end == split.start and last.location == task.location:
                whole = Split(last.split.start, last.split.length + split.length)
                joined[-1] = replace(
                    last,
                    split=None if whole == Split(0, task.size_bytes or 0) else whole,
                    split_offsets=last.split_offsets + task.split_offsets,
                )
                continue
        joined.append(task)
    return joined


def _split(task: FileTask, target: int) -> Sequence[FileTask]:
    offsets = task.split_offsets
    if len(offsets) <= 1 or task.size_bytes is None:
        return (task,)
    part = task.split or Split(0, task.size_bytes)
    # Offsets that do not ascend or lie outside the file are some writer's mistake, and are not used.
    if offsets[0] < part.start or not all(before < after for before, after in pairwise((*offsets, part.end))):
        return (task,)
    starts = [part.start]
    for offset in offsets[1:]:
        if offset - starts[-1] >= target:
            starts.append(offset)
    if len(starts) == 1:
        return (task,)
    return [
        replace(
            task,
            split=Split(start, end - start),
            split_offsets=tuple(offset for offset in offsets if start <= offset < end),
        )
        for start, end in pairwise((*starts, part.end))
    ]
