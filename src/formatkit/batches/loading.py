"""When compiled code is loaded: not before it pays, once per process, and never halfway through a fork."""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from types import ModuleType

__all__ = ["Payback", "compiled_module", "is_loaded"]

# A fork while another thread imports numba would leave the child with half a module and a lock that nobody releases.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def compiled_module(name: str) -> ModuleType:
    """A module that holds compiled code, by its full name."""
    with _lock:
        return import_module(name)


def is_loaded(name: str) -> bool:
    """Whether `compiled_module` would return at once."""
    with _lock:
        return name in sys.modules


class Payback:
    """Decides when a module of compiled code is worth the time that loading it takes.

    Nobody knows how much a process is still going to read. Loading once it has read as much without the module as
    loading costs is never worse than twice the best decision.

    Args:
        module: Its full name.
        price: How many bytes are read without it in the time that loading takes.
    """

    def __init__(self, module: str, price: int) -> None:
        self._module = module
        self._unpaid = price

    def reached(self, length: int) -> bool:
        """Count so many bytes to be read now. True if they should be read by the compiled code."""
        with _lock:
            self._unpaid -= length
            return self._unpaid < 0 or is_loaded(self._module)
