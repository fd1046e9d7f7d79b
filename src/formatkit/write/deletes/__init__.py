"""Writing the files that say which rows are deleted. Nothing here is committed."""

from formatkit.write.deletes.deletion_vectors import PartitionOf, write_deletion_vectors
from formatkit.write.deletes.equality_deletes import write_equality_deletes
from formatkit.write.deletes.position_deletes import write_position_deletes
from formatkit.write.deletes.settings import delete_format

__all__ = [
    "PartitionOf",
    "delete_format",
    "write_deletion_vectors",
    "write_equality_deletes",
    "write_position_deletes",
]
