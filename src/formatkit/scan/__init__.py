"""From a table or a file to a stream of rows: planning, pruning, and reading side by side."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from formatkit.scan.explain import Explanation
from formatkit.scan.files import read_file
from formatkit.scan.scan import Scan
from formatkit.scan.table import scan
from formatkit.scan.tasks import DeleteFile, FileTask

if TYPE_CHECKING:
    from formatkit.scan.load import load_table

__all__ = ["DeleteFile", "Explanation", "FileTask", "Scan", "load_table", "read_file", "scan"]


def __getattr__(name: str) -> Any:
    if name != "load_table":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Loaded when it is first used, because pyiceberg's tables take longer to load than a small file to be read.
    from formatkit.scan.load import load_table

    return load_table


class _CallablePackage(ModuleType):
    """Makes `formatkit.scan(table)` work: once any part of this package is imported, the name means the package."""

    __call__ = staticmethod(scan)
    __wrapped__ = staticmethod(scan)  # where tools look for the signature


sys.modules[__name__].__class__ = _CallablePackage
