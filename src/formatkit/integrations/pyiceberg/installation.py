"""One call that puts formatkit into pyiceberg, and one that takes it out again."""

from __future__ import annotations

import threading
from types import TracebackType

from formatkit.forks import fork_safe
from formatkit.integrations.pyiceberg.file_formats import (
    add_members,
    register_models,
    remove_members,
    unregister_models,
)
from formatkit.integrations.pyiceberg.patches import Patches
from formatkit.integrations.pyiceberg.replacements import (
    replace_deletes,
    replace_metadata,
    replace_registration,
    replace_scans,
    replace_tasks,
    replace_writes,
)
from formatkit.integrations.pyiceberg.trust import replace_loaders
from formatkit.registry import FormatRegistry, default_registry

__all__ = ["Installation", "install", "installed", "uninstall"]

_lock = fork_safe(threading.RLock())
_changes: _Changes | None = None


class Installation:
    """What `install` returns; leaving its ``with`` block undoes what that very call did."""

    def __init__(self, changes: _Changes | None) -> None:
        self._changes = changes

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _lock:
            if self._changes is not None and self._changes is _changes:
                uninstall()


def install(registry: FormatRegistry | None = None) -> Installation:
    """Let pyiceberg read and write through formatkit, in this process and for all its tables.

    Scans, copy-on-write deletes and upserts then read every installed format, with all kinds of deletes applied, and
    `write.format.default` may be any installed format. This is true of tables that are loaded already, too. Tables may
    not name code to import any more. Where formatkit is installed already nothing happens.

    Args:
        registry: Where formats are looked up; everything that is installed by default.

    Returns:
        A context manager, for those who want formatkit in pyiceberg for one block only.
    """
    global _changes  # noqa: PLW0603 - as pyiceberg's classes are, once in a process
    with _lock:
        if _changes is not None:
            return Installation(None)
        _changes = _Changes(registry or default_registry())
        return Installation(_changes)


def uninstall() -> None:
    """Give pyiceberg back exactly what it had. Where formatkit is not installed nothing happens.

    Raises:
        ConfigurationError: Another library has replaced the same functions since.
    """
    global _changes  # noqa: PLW0603
    with _lock:
        if _changes is not None:
            _changes.undo()
            _changes = None


def installed() -> bool:
    """Whether pyiceberg reads and writes through formatkit now."""
    return _changes is not None


class _Changes:
    """What was changed in pyiceberg."""

    def __init__(self, registry: FormatRegistry) -> None:
        self._members = add_members(registry.names())
        register_models(registry, registry.names())
        self._patches = Patches()
        replace_loaders(self._patches)
        replace_scans(self._patches, registry)
        replace_tasks(self._patches, registry)
        replace_deletes(self._patches)
        replace_writes(self._patches, registry)
        replace_metadata(self._patches)
        replace_registration(self._patches)

    def undo(self) -> None:
        self._patches.undo()
        unregister_models()
        remove_members(self._members)
