"""From a table or a file to a stream of rows: planning, pruning, and reading side by side."""

import sys
from types import ModuleType

from formatkit.scan.explain import Explanation
from formatkit.scan.files import read_file
from formatkit.scan.load import load_table
from formatkit.scan.scan import Scan
from formatkit.scan.table import scan
from formatkit.scan.tasks import DeleteFile, FileTask

__all__ = ["DeleteFile", "Explanation", "FileTask", "Scan", "load_table", "read_file", "scan"]


class _CallablePackage(ModuleType):
    """Makes `formatkit.scan(table)` work: once any part of this package is imported, the name means the package."""

    __call__ = staticmethod(scan)
    __wrapped__ = staticmethod(scan)  # where tools look for the signature


sys.modules[__name__].__class__ = _CallablePackage
