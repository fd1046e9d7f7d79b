"""One contract for every Iceberg data file format."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import formatkit.forks  # noqa: F401 - a fork waits for imports from now on

if TYPE_CHECKING:
    from formatkit.errors import FormatkitError
    from formatkit.io import IoRuntime, with_runtime
    from formatkit.registry import FormatRegistry, default_registry
    from formatkit.scan import Scan, load_table, read_file, scan
    from formatkit.validation import Report, validate
    from formatkit.write import (
        Delete,
        Insert,
        MergeResult,
        RewriteResult,
        Update,
        UpsertResult,
        WrittenFile,
        append,
        clean_orphans,
        delete,
        merge,
        overwrite,
        rewrite,
        upsert,
        write_file,
    )

    __version__: str

__all__ = [
    "Delete",
    "FormatRegistry",
    "FormatkitError",
    "Insert",
    "IoRuntime",
    "MergeResult",
    "Report",
    "RewriteResult",
    "Scan",
    "Update",
    "UpsertResult",
    "WrittenFile",
    "__version__",
    "append",
    "clean_orphans",
    "default_registry",
    "delete",
    "load_table",
    "merge",
    "overwrite",
    "read_file",
    "rewrite",
    "scan",
    "upsert",
    "validate",
    "with_runtime",
    "write_file",
]

# Loaded when they are first used, so that importing formatkit costs nothing.
_HOMES = {
    "Delete": "formatkit.write",
    "FormatRegistry": "formatkit.registry",
    "FormatkitError": "formatkit.errors",
    "Insert": "formatkit.write",
    "IoRuntime": "formatkit.io",
    "MergeResult": "formatkit.write",
    "Report": "formatkit.validation",
    "RewriteResult": "formatkit.write",
    "Scan": "formatkit.scan",
    "Update": "formatkit.write",
    "UpsertResult": "formatkit.write",
    "WrittenFile": "formatkit.write",
    "append": "formatkit.write",
    "clean_orphans": "formatkit.write",
    "default_registry": "formatkit.registry",
    "delete": "formatkit.write",
    "load_table": "formatkit.scan",
    "merge": "formatkit.write",
    "overwrite": "formatkit.write",
    "read_file": "formatkit.scan",
    "rewrite": "formatkit.write",
    "upsert": "formatkit.write",
    "validate": "formatkit.validation",
    "with_runtime": "formatkit.io",
    "write_file": "formatkit.write",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return globals().setdefault(name, version("formatkit"))
    if name in ("scan", "spark"):
        return import_module(f"formatkit.{name}")  # `scan` is a package that can be called: it is the function, too
    if name not in _HOMES:
        raise AttributeError(f"module 'formatkit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
