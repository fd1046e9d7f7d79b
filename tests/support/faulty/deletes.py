"""Tables whose deletes are stored as an engine that goes by wrong rules would take them, or written wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from formatkit.batches.arrow import ArrowBatch
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.tck import Subject
from formatkit.tck.check import Layer
from formatkit.tck.deletions import Deletes
from formatkit.tck.kits import DeleteWriters
from formatkit.tck.manifests import Entry
from formatkit.tck.naive import File
from formatkit.tck.scan_kit import ScanKit

__all__ = ["altering", "dropping", "mistaking", "writing"]

GOOD: Any = ArrowFormat()


@dataclass(frozen=True, kw_only=True)
class _Kit(ScanKit[Any]):
    """Stores other deletes than it says."""

    change: Callable[[Sequence[Deletes]], Iterable[Deletes]]

    def write_deletes(self, folder: Path, deletes: Sequence[Deletes], files: Sequence[File]) -> Iterable[Entry]:
        return super().write_deletes(folder, list(self.change(deletes)), files)


def mistaking(change: Callable[[Sequence[Deletes]], Iterable[Deletes]]) -> Subject[Any]:
    """Scans that take the deletes of a table for others."""

    class Mistaken(Subject[Any]):
        def kit(self, layer: Layer) -> Any:
            kit = super().kit(layer)
            if layer is not Layer.SCAN:
                return kit
            return _Kit(change=change, **{each.name: getattr(kit, each.name) for each in fields(kit)})

    return Mistaken(operations=ArrowBatch(), plugin=GOOD)


def altering(change: Callable[[Any], Deletes], kind: type[Deletes] = Deletes) -> Subject[Any]:
    """Scans that take each delete file of a kind for another."""
    return mistaking(lambda deletes: [change(each) if isinstance(each, kind) else each for each in deletes])


def dropping(passed_over: Callable[[Any], bool], kind: type[Deletes] = Deletes) -> Subject[Any]:
    """Scans that pass over some delete files of a kind."""
    return mistaking(lambda deletes: [each for each in deletes if not (isinstance(each, kind) and passed_over(each))])


def writing(**writers: Callable[..., Any]) -> Subject[Any]:
    """A good format, whose delete files are written by these writers."""

    class Writing(Subject[Any]):
        def kit(self, layer: Layer) -> Any:
            kit = super().kit(layer)
            chosen = DeleteWriters(**writers)
            if layer is Layer.SCAN:
                return replace(kit, format=replace(kit.format, delete_writers=chosen))
            return replace(kit, delete_writers=chosen)

    return Writing(operations=ArrowBatch(), plugin=GOOD)
