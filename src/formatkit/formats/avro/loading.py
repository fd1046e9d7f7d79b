"""When compiled code is loaded: not before it pays, once per process, and never halfway through a fork."""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from types import ModuleType

__all__ = ["compiled_module", "is_loaded"]

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
