"""What planning a scan comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundPredicate
from pyiceberg.types import NestedField

from formatkit.contract.pruning import ChunkStatistics
from formatkit.scan.tasks import FileTask

if TYPE_CHECKING:
    from pyiceberg.table.sorting import SortOrder

__all__ = ["Plan"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a scan will read, and what it need not read.

    Attributes:
        tasks: The work, in the order of the output.
        predicate: The whole filter, bound.
        table: Which table or file it is.
        snapshot_id: What is read; None for a table without data and for single files.
        parts: Which files of which snapshots are read, where it is not all files of one.
        sort_orders: What the sort order ids of tasks mean.
        prunable: The conditions of the filter about which the table's metadata says something.
        manifests: How many manifests list data files.
        manifests_skipped: How many of them were not opened because of their partitions.
        files: How many data files the opened manifests list.
        skipped: Why files are not read, by reason: ``partition``, ``metrics``, ``empty``.
        dropped: How much of the metadata was not used because it cannot be true, by kind.
        file_metrics: What the table says about some columns of each file that its manifests list, read anew.
    """

    tasks: tuple[FileTask, ...]
    predicate: BooleanExpression = field(default_factory=AlwaysTrue)
    table: str = ""
    snapshot_id: int | None = None
    parts: tuple[str, ...] | None = None
    sort_orders: Mapping[int, SortOrder] = field(default_factory=dict)
    prunable: tuple[BoundPredicate, ...] = ()
    manifests: int = 0
    manifests_skipped: int = 0
    files: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    file_metrics: Callable[[Sequence[NestedField]], Iterator[tuple[str, ChunkStatistics]]] | None = None

    @property
    def files_read(self) -> list[FileTask]:
        """A task of each file whose rows may be returned."""
        return list({task.location: task for task in self.tasks if not task.is_skipped}.values())
