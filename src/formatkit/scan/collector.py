"""Keeps Python's garbage collector out of work that makes many objects and no garbage."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from formatkit.forks import fork_safe

__all__ = ["collector_paused"]

_lock = fork_safe(threading.Lock())
_pausing: list[int] = []
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Run a block without the collector, which would look at a million tasks again and again while they are made.

    Objects are freed as ever when nothing refers to them; only cycles wait. Threads may pause it at the same time: it
    goes on, if it was on, when the last of them is done.
    """
    global _was_enabled  # noqa: PLW0603 - the collector is one for the process, too
    thread = threading.get_ident()
    with _lock:
        if not _pausing:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pausing.append(thread)
    try:
        yield
    finally:
        with _lock:
            _pausing.remove(thread)
            if not _pausing and _was_enabled:
                gc.enable()


def _forget_parent() -> None:
    """In the child of a fork, where the other threads that paused it do not go on."""
    if _pausing:
        _pausing[:] = [thread for thread in _pausing if thread == threading.get_ident()]
        if not _pausing and _was_enabled:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
