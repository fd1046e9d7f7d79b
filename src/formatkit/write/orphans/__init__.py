"""Files under a table's location that the table does not refer to."""

from formatkit.write.orphans.clean import OrphanReport, clean_orphans
from formatkit.write.orphans.listing import StoredFile

__all__ = ["OrphanReport", "StoredFile", "clean_orphans"]
