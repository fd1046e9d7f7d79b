"""Keeps Python's garbage collector out of work that makes many objects and no garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]

_lock = threading.Lock()
_pausing = 0
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Run a block without the collector, which would look at a million tasks again and again while they are made.

    Objects are freed as ever when nothing refers to them; only cycles wait. Threads may pause it at the same time: it
    goes on, if it was on, when the last of them is done.
    """
    global _pausing, _was_enabled  # noqa: PLW0603 - the collector is one for the process, too
    with _lock:
        if _pausing == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pausing += 1
    try:
        yield
    finally:
        with _lock:
            _pausing -= 1
            if _pausing == 0 and _was_enabled:
                gc.enable()
