"""Operations that change rows of a table or its files, each in one snapshot."""

from formatkit.write.operations.delete import delete
from formatkit.write.operations.overwrite import overwrite
from formatkit.write.operations.removal import Mode
from formatkit.write.operations.rewrite import RewriteResult, rewrite
from formatkit.write.operations.rewrite_plan import RewriteGroup, RewritePlan
from formatkit.write.operations.upsert import UpsertResult, upsert

__all__ = [
    "Mode",
    "RewriteGroup",
    "RewritePlan",
    "RewriteResult",
    "UpsertResult",
    "delete",
    "overwrite",
    "rewrite",
    "upsert",
]
