"""When compiled code is loaded: not before it pays, once per process, and never halfway through a fork."""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from types import ModuleType

__all__ = ["Worth", "compiled_module", "is_loaded"]

# A fork while another thread imports numba would leave the child with half a module and a lock that nobody releases.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def compiled_module(name: str) -> ModuleType:
    """A module of this package that holds compiled code, such as ``"kernel"``."""
    with _lock:
        return import_module(f"{__package__}.{name}")


def is_loaded(name: str) -> bool:
    """Whether `compiled_module` would return at once."""
    with _lock:
        return f"{__package__}.{name}" in sys.modules


class Worth:
    """Whether a module of compiled code pays: once so much was done without it that loading it took no longer.

    What all reads of a process did counts, so that many small files are worth it too.
    """

    def __init__(self, name: str, most_bytes: int) -> None:
        self._name = name
        self._left = most_bytes

    def spend(self, count: int) -> None:
        """Note that so many bytes are about to be decoded without compiled code."""
        # Threads that spend at once may be counted as one; it is an estimate anyway.
        self._left -= count

    def __bool__(self) -> bool:
        return self._left < 0 or is_loaded(self._name)
