"""One contract for every Iceberg data file format."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from formatkit.errors import FormatkitError
    from formatkit.registry import FormatRegistry, default_registry
    from formatkit.scan import Scan, load_table, read_file, scan
    from formatkit.write import WrittenFile, append, write_file

    __version__: str

__all__ = [
    "FormatRegistry",
    "FormatkitError",
    "Scan",
    "WrittenFile",
    "__version__",
    "append",
    "default_registry",
    "load_table",
    "read_file",
    "scan",
    "write_file",
]

# Loaded when they are first used, so that importing formatkit costs nothing.
_HOMES = {
    "FormatRegistry": "formatkit.registry",
    "FormatkitError": "formatkit.errors",
    "Scan": "formatkit.scan",
    "WrittenFile": "formatkit.write",
    "append": "formatkit.write",
    "default_registry": "formatkit.registry",
    "load_table": "formatkit.scan",
    "read_file": "formatkit.scan",
    "write_file": "formatkit.write",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("formatkit")
    if name == "scan":
        return import_module("formatkit.scan")  # a package that can be called: it is the function `scan` too
    if name not in _HOMES:
        raise AttributeError(f"module 'formatkit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
