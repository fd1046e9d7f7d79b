"""`merge`: rows of a source are matched with those of a table, and clauses say what becomes of each."""

from formatkit.write.merge.clauses import Delete, Insert, Update
from formatkit.write.merge.operation import MergeResult, merge

__all__ = ["Delete", "Insert", "MergeResult", "Update", "merge"]
