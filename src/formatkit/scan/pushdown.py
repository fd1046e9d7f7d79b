"""Says of each part of a filter how far the metadata of the table goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from pyiceberg.expressions import BooleanExpression

from formatkit.kernel.predicates import conjuncts, leaves
from formatkit.scan.plan import Plan
from formatkit.scan.tasks import FileTask

__all__ = ["Pushdown", "classify", "conditions_left", "files_decided"]

ConditionsLeft = list[tuple[frozenset[int], int]]
Pushdown = Literal["exact", "inexact", "none"]
"""What becomes of a part of a filter.

``exact``: metadata decides it for every file, so that no row is tested. ``inexact``: metadata may leave files out, and
rows of the others are tested. ``none``: the metadata says nothing about its columns, and rows of all files are tested.
"""


def classify(plan: Plan) -> list[tuple[BooleanExpression, Pushdown]]:
    """Each part of the filter of a plan, with how far metadata goes."""
    files = plan.files_read
    usable = {id(leaf) for leaf in plan.prunable}
    left = conditions_left(files)
    return [(part, _pushdown(part, left, len(files), usable)) for part in conjuncts(plan.predicate)]


def _pushdown(part: BooleanExpression, left: ConditionsLeft, files: int, usable: set[int]) -> Pushdown:
    if files_decided(part, left) == files:
        return "exact"
    return "inexact" if any(id(leaf) in usable for leaf in leaves(part)) else "none"


def conditions_left(files: Iterable[FileTask]) -> ConditionsLeft:
    """Which conditions are left in how many files. A condition that is left is the very object of the filter."""
    residuals = {id(task.residual): task.residual for task in files}
    counts = Counter(id(task.residual) for task in files)
    return [(frozenset(map(id, leaves(residual))), counts[key]) for key, residual in residuals.items()]


def files_decided(part: BooleanExpression, left: ConditionsLeft) -> int:
    """In how many files no condition of a part of the filter is left."""
    conditions = [id(leaf) for leaf in leaves(part)]
    return sum(files for ids, files in left if ids.isdisjoint(conditions))
