"""What a fork must not break: a child has none of its parent's other threads, and copies of all that they held.

A lock that another thread holds at the moment of the fork stays locked in the child for ever, and a module that another
thread imports stays half a module. So locks that a child may meet are `fork_safe`, attributes that are computed once
have no lock (`cached`), imports and `uninterrupted` blocks end before a fork begins, and whoever has threads or streams
under way is told by `renew_after_fork`.
"""

from __future__ import annotations

import _imp

# These two take locks before a fork, which imports need. They come first, so that they are called after `_before`.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from time import monotonic, sleep
from types import FrameType, ModuleType
from typing import Any, Generic, Protocol, Self, TypeVar, overload
from weakref import WeakSet, finalize

__all__ = [
    "SurvivesFork",
    "cached",
    "finalize_here",
    "fork_safe",
    "imported",
    "keep_for_ever",
    "renew_after_fork",
    "uninterrupted",
]

T = TypeVar("T")
L = TypeVar("L")

_MAX_IMPORT_SECONDS = 10.0
_PAUSE_SECONDS = 0.005
_RLOCK = type(threading.RLock())
_LOCKS = (type(threading.Lock()), _RLOCK)


class cached(Generic[T]):  # noqa: N801 - used like the built-in `property`
    """`functools.cached_property` without its lock, which is one for all instances of a class until Python 3.12.

    Two threads may compute the value at the same time; both find the same one afterwards.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        computed = self._compute(instance)
        # In the instance's own dictionary it is found before this descriptor.
        found: T = instance.__dict__.setdefault(self._name, computed)
        return found


class SurvivesFork(Protocol):
    """Something that is usable in a forked child once it was told."""

    def after_fork(self) -> None:
        """Forget what other threads had under way. No other thread runs, and `fork_safe` locks are free."""
        ...


uninterrupted = threading.RLock()
"""Held for work of the whole process that a fork must not cut in two. A fork waits for its end."""

_alive: WeakSet[SurvivesFork] = WeakSet()
_locks: WeakSet[Any] = WeakSet()


def renew_after_fork(thing: SurvivesFork) -> None:
    """Tell a thing, as long as it lives, when it finds itself in a child."""
    _alive.add(thing)


def fork_safe(lock: L) -> L:
    """The same `Lock`, `RLock`, `Condition` or `Event`, which is free in a child, whoever held it in the parent."""
    _locks.add(lock)
    return lock


def imported(name: str) -> ModuleType:
    """A module by its full name, imported now, which no fork can interrupt."""
    with uninterrupted:
        return import_module(name)


def keep_for_ever(thing: object) -> None:
    """Never finalize an object of the parent: closing it here would write to, or wait for, what is the parent's."""
    import ctypes  # takes longer to load than all the rest of this module

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def finalize_here(thing: object, do: Callable[..., object], /, *args: Any, **named: Any) -> finalize[..., Any]:
    """`weakref.finalize` that does nothing in children: what it removes is the parent's."""
    process = os.getpid()

    def do_here() -> None:
        if os.getpid() == process:
            do(*args, **named)

    return finalize(thing, do_here)


def _before() -> None:
    """Wait until no thread imports for formatkit, and let none begin until the fork is done."""
    deadline = monotonic() + _MAX_IMPORT_SECONDS
    while True:
        # Without the locks at first, because those who import need them.
        while _others_import() and monotonic() < deadline:
            sleep(_PAUSE_SECONDS)
        uninterrupted.acquire()
        # Each import takes this lock to begin with.
        _imp.acquire_lock()
        if not _others_import() or monotonic() > deadline:
            return
        _imp.release_lock()
        uninterrupted.release()
        sleep(_PAUSE_SECONDS)


def _after() -> None:
    _imp.release_lock()
    uninterrupted.release()


def _in_child() -> None:
    for lock in (*_locks, *_locks_of_pyiceberg()):
        # This thread still has the recursive locks that it had.
        if not (isinstance(lock, _RLOCK) and lock._is_owned()):  # type: ignore[attr-defined]  # noqa: SLF001
            lock._at_fork_reinit()  # noqa: SLF001 - what the standard library does to its own
    _after()
    for thing in list(_alive):
        thing.after_fork()


def _others_import() -> bool:
    me, frames = threading.get_ident(), sys._current_frames()  # noqa: SLF001
    if _has_import(frames.pop(me)):
        # Others may wait for a module of this very thread.
        return False
    return any(_imports_for_formatkit(frame) for frame in frames.values())


def _has_import(frame: FrameType | None) -> bool:
    return any(map(_is_import, _stack(frame)))


def _imports_for_formatkit(frame: FrameType) -> bool:
    """Whether a thread imports a module of formatkit, or formatkit has it import one."""
    importing = False
    for each in _stack(frame):
        if _is_import(each):
            importing = True
        elif str(each.f_globals.get("__name__", "")).partition(".")[0] == "formatkit" and (
            importing or each.f_code.co_name == "<module>"
        ):
            return True
    return False


def _is_import(frame: FrameType) -> bool:
    return frame.f_code.co_filename == "<frozen importlib._bootstrap>"


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _locks_of_pyiceberg() -> Iterator[Any]:
    """Locks of its modules, and of attributes that its classes compute once; none of them guards half a change."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "pyiceberg":
            for value in list(vars(module).values()):
                yield from _locks_in(value)


def _locks_in(value: object) -> Iterator[Any]:
    if isinstance(value, _LOCKS):
        yield value
    elif isinstance(value, type):
        for attribute in list(vars(value).values()):
            if isinstance(attribute, cached_property) and hasattr(attribute, "lock"):
                yield attribute.lock
    elif type(value).__module__.partition(".")[0] == "pyiceberg" and hasattr(value, "__dict__"):
        yield from (one for one in vars(value).values() if isinstance(one, _LOCKS))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
