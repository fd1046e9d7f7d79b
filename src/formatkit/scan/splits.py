"""Cuts files into parts that can be read side by side."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import pairwise

from formatkit.contract.options import Split
from formatkit.scan.tasks import FileTask

__all__ = ["split_tasks"]

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
    target = max(_LEAST_BYTES, min(_MOST_BYTES, total // (threads * _PARTS_PER_THREAD)))
    return tuple(
        part for task in tasks for part in (_split(task, target) if task.file_format in splittable else (task,))
    )


def _split(task: FileTask, target: int) -> Sequence[FileTask]:
    offsets, size = task.split_offsets, task.size_bytes
    # Offsets that do not ascend or lie outside the file are some writer's mistake, and are not used.
    usable = size is not None and all(before < after for before, after in pairwise((*offsets, size)))
    if size is None or not usable:
        return (task,)
    starts = [0]
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
        for start, end in pairwise((*starts, size))
    ]
