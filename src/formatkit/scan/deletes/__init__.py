"""Deletes of a scan: which delete files apply to a data file (`index`), and what they say, loaded once for all."""

from formatkit.scan.deletes.keys import KeySchemas
from formatkit.scan.deletes.loader import DeleteLoader
from formatkit.scan.deletes.reading import DeleteReader

__all__ = ["DeleteLoader", "DeleteReader", "KeySchemas"]
