"""Runs the tasks of a scan, or some of them, as one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from formatkit.contract.results import BatchStream
from formatkit.scan.look_ahead import LookAhead
from formatkit.scan.options import Tuning
from formatkit.scan.reading import TaskReader
from formatkit.scan.runner import run_in_order
from formatkit.scan.running import Run, measured
from formatkit.scan.session import Session
from formatkit.scan.tasks import FileTask
from formatkit.scan.thread_shares import share_threads
from formatkit.scan.verify import verifies_skipping

__all__ = ["stream_tasks"]

B = TypeVar("B")

_WAITS_KEPT = 5


def stream_tasks(
    reader: TaskReader[B],
    tasks: Sequence[FileTask],
    tuning: Tuning,
    *,
    limit: int | None = None,
    when_done: Callable[[Run], None] | None = None,
) -> BatchStream[B]:
    """The batches of tasks, in their order. Closing the stream stops all reading and releases everything.

    Args:
        reader: Reads tasks.
        tasks: The work.
        tuning: How it runs.
        limit: The most rows.
        when_done: Called with the account of the run.
    """
    return BatchStream(_batches(reader, tasks, tuning, limit, when_done))


def _batches(
    reader: TaskReader[B],
    tasks: Sequence[FileTask],
    tuning: Tuning,
    limit: int | None,
    when_done: Callable[[Run], None] | None,
) -> Iterator[B]:
    shares = share_threads(reader.plugins, tasks, tuning)
    session = _session(replace(reader, request=replace(reader.request, threads=shares.in_files)), tasks)
    slowly = limit is not None
    ahead = LookAhead(session, tasks, threads=shares.files, start_slowly=slowly)
    batches = run_in_order(
        range(len(tasks)),
        ahead.batches,
        threads=shares.files,
        buffer_bytes=tuning.buffer_bytes,
        start_slowly=slowly,
        beside=tuning.threads > 1 and shares.files == 1 < len(tasks),
    )
    run = Run(counters=session.counters)
    try:
        wanted = batches if limit is None else _first_rows(batches, limit, reader)
        yield from measured(wanted, run, reader.operations)
    finally:
        with ExitStack() as stack:
            # Undone from the last to the first: nothing may be closed before the workers have ended.
            if when_done is not None:
                stack.callback(when_done, run)
            stack.callback(_account_for_io, run, session)
            stack.callback(session.close)
            stack.callback(ahead.close)
            stack.callback(batches.close)


def _session(reader: TaskReader[B], tasks: Sequence[FileTask]) -> Session[B]:
    if not verifies_skipping(reader.request.properties):
        return Session(reader, tasks)
    from formatkit.scan.verify.session import VerifyingSession

    return VerifyingSession(reader, tasks)


def _account_for_io(run: Run, session: Session[B]) -> None:
    run.longest_waits = session.sources.longest_waits(_WAITS_KEPT)
    run.runtime = session.sources.runtime


def _first_rows(batches: Iterator[B], limit: int, reader: TaskReader[B]) -> Iterator[B]:
    left = limit
    for batch in batches if left else ():
        rows = reader.operations.num_rows(batch)
        yield batch if rows <= left else reader.operations.slice(batch, 0, left)
        left -= rows
        if left <= 0:
            return
