"""Deletes of a scan: which delete files apply to a data file, and what they say, loaded once for all tasks."""

from formatkit.scan.deletes.index import DeleteIndex
from formatkit.scan.deletes.keys import KeySchemas
from formatkit.scan.deletes.loader import DeleteLoader
from formatkit.scan.deletes.reading import DeleteReader

__all__ = ["DeleteIndex", "DeleteLoader", "DeleteReader", "KeySchemas"]
