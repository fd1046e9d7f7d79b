"""Says of each part of a filter how far the metadata of the table goes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pyiceberg.expressions import BooleanExpression, BoundPredicate

from formatkit.kernel.predicates import conjuncts, leaves
from formatkit.scan.plan import Plan
from formatkit.scan.tasks import FileTask

__all__ = ["Pushdown", "classify", "files_decided"]

Pushdown = Literal["exact", "inexact", "none"]
"""What becomes of a part of a filter.

``exact``: metadata decides it for every file, so that no row is tested. ``inexact``: metadata may leave files out, and
rows of the others are tested. ``none``: the metadata says nothing about its columns, and rows of all files are tested.
"""


def classify(plan: Plan) -> list[tuple[BooleanExpression, Pushdown]]:
    """Each part of the filter of a plan, with how far metadata goes."""
    files = list({task.location: task for task in plan.tasks}.values())
    usable = {id(leaf) for leaf in plan.prunable}
    return [(part, _pushdown(part, files, usable)) for part in conjuncts(plan.predicate)]


def _pushdown(part: BooleanExpression, files: list[FileTask], usable: set[int]) -> Pushdown:
    if files_decided(part, files) == len(files):
        return "exact"
    return "inexact" if any(id(leaf) in usable for leaf in leaves(part)) else "none"


def files_decided(part: BooleanExpression, files: Iterable[FileTask]) -> int:
    """In how many files no condition of a part of the filter is left."""
    conditions: list[BoundPredicate] = list(leaves(part))
    decided: dict[int, bool] = {}
    count = 0
    for task in files:
        residual = task.residual
        known = decided.get(id(residual))
        if known is None:
            known = decided[id(residual)] = not any(leaf in conditions for leaf in leaves(residual))
        count += known
    return count
