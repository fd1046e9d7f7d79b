"""Runs the tasks of a scan, or some of them, as one stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from formatkit.contract.results import BatchStream
from formatkit.scan.options import Tuning
from formatkit.scan.reading import TaskReader
from formatkit.scan.runner import run_in_order
from formatkit.scan.tasks import FileTask

__all__ = ["stream_tasks"]

B = TypeVar("B")


def stream_tasks(
    reader: TaskReader[B],
    tasks: Sequence[FileTask],
    tuning: Tuning,
    *,
    limit: int | None = None,
    when_done: Callable[[Counter[str]], None] | None = None,
) -> BatchStream[B]:
    """The batches of tasks, in their order. Closing the stream stops all reading and releases everything.

    Args:
        reader: Reads tasks.
        tasks: The work.
        tuning: How it runs.
        limit: The most rows.
        when_done: Called with what readers counted.
    """
    return BatchStream(_batches(reader, tasks, tuning, limit, when_done))


def _batches(
    reader: TaskReader[B],
    tasks: Sequence[FileTask],
    tuning: Tuning,
    limit: int | None,
    when_done: Callable[[Counter[str]], None] | None,
) -> Iterator[B]:
    session = reader.session(tasks)
    batches = run_in_order(
        tasks,
        session.batches,
        threads=tuning.threads,
        buffer_bytes=tuning.buffer_bytes,
        start_slowly=limit is not None,
    )
    try:
        if limit is None:
            yield from batches
        else:
            yield from _first_rows(batches, limit, reader)
    finally:
        try:
            batches.close()
        finally:
            session.close()
            if when_done is not None:
                when_done(session.counters)


def _first_rows(batches: Iterator[B], limit: int, reader: TaskReader[B]) -> Iterator[B]:
    left = limit
    for batch in batches if left else ():
        rows = reader.operations.num_rows(batch)
        yield batch if rows <= left else reader.operations.slice(batch, 0, left)
        left -= rows
        if left <= 0:
            return
