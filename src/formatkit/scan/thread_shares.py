"""How the threads of a scan are shared out: several files side by side, or columns of one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from formatkit.contract.format import FormatPlugin
from formatkit.scan.options import Tuning
from formatkit.scan.tasks import FileTask

__all__ = ["ThreadShares", "share_threads"]

B = TypeVar("B")

_SMALL_TASK_BYTES = 1 << 20


class ThreadShares(NamedTuple):
    """How many files are read at once, and on how many threads each."""

    files: int
    in_files: int


def share_threads(plugins: Mapping[str, FormatPlugin[B]], tasks: Sequence[FileTask], tuning: Tuning) -> ThreadShares:
    """Share threads out among tasks, whose files the plugins read, by format.

    Files side by side need nobody to wait for anybody else, as long as what they produce has place until it is their
    turn. Large files have more than that, and one of them would be read after the other.
    """
    files = max(1, min(tuning.threads, len(tasks)))
    if (
        tuning.threads == 1
        or not tasks
        or not all(_uses_threads(plugins[name]) for name in {task.file_format for task in tasks})
    ):
        return ThreadShares(tuning.threads, 1)
    mean = sum(task.bytes_to_read for task in tasks) // len(tasks)
    if len(tasks) > 1 and mean > max(tuning.buffer_bytes // tuning.threads, _SMALL_TASK_BYTES):
        files = 1
    return ThreadShares(files, tuning.threads // files)


def _uses_threads(plugin: FormatPlugin[B]) -> bool:
    # Asking whether the reader is a `UsesThreads` takes longer.
    return bool(getattr(plugin.reader(), "uses_threads", False))
