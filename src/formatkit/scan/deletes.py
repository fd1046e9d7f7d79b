"""Finds the delete files that apply to a data file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from formatkit.errors import UnsupportedError
from formatkit.scan.manifests import Content, ManifestEntry
from formatkit.scan.tasks import DeleteFile, FileTask

__all__ = ["DeleteIndex", "refuse_deletes"]

_PATH_ID = 2147483546


class DeleteIndex:
    """Delete files by what they may apply to, so that a data file is checked against its own candidates only."""

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        self._by_file: dict[str, list[ManifestEntry]] = defaultdict(list)
        self._by_partition: dict[Any, list[ManifestEntry]] = defaultdict(list)
        self._everywhere: list[ManifestEntry] = []
        for entry in entries:
            if entry.referenced_data_file is not None:
                self._by_file[entry.referenced_data_file].append(entry)
            elif entry.content is Content.EQUALITY_DELETES and not entry.partition:
                self._everywhere.append(entry)
            else:
                self._by_partition[_partition(entry)].append(entry)

    def applying_to(self, data: ManifestEntry) -> tuple[DeleteFile, ...]:
        """The delete files that may delete rows of a data file."""
        candidates = [
            *self._by_file.get(data.location, ()),
            *self._by_partition.get(_partition(data), ()),
            *self._everywhere,
        ]
        return tuple(_delete_file(each) for each in candidates if _applies(each, data))


def refuse_deletes(tasks: Iterable[FileTask]) -> None:
    """Raise `UnsupportedError` if a task has deletes, because reading past them would return deleted rows."""
    deletes = {(each.kind, each.location, each.content_offset) for task in tasks for each in task.deletes}
    if deletes:
        kinds = Counter(kind for kind, _, _ in deletes)
        found = ", ".join(f"{count} with {kind}" for kind, count in sorted(kinds.items()))
        message = (
            f"deleted rows must be left out of this scan, which this release cannot do; delete files found: {found}. "
            "Compact the table with another engine, or filter so that no file with deletes is read"
        )
        raise UnsupportedError(message, kinds=dict(kinds))


def _partition(entry: ManifestEntry) -> Any:
    return entry.spec_id, tuple(sorted(entry.partition.items()))


def _applies(delete: ManifestEntry, data: ManifestEntry) -> bool:
    if delete.content is Content.EQUALITY_DELETES:
        return delete.sequence_number > data.sequence_number
    path = data.location.encode()
    lower, upper = delete.lower_bounds.get(_PATH_ID), delete.upper_bounds.get(_PATH_ID)
    in_bounds = (lower is None or lower <= path) and (upper is None or path <= upper)
    return in_bounds and delete.sequence_number >= data.sequence_number


def _delete_file(entry: ManifestEntry) -> DeleteFile:
    if entry.content is Content.EQUALITY_DELETES:
        kind = "equality deletes"
    elif entry.content_offset is not None:
        kind = "deletion vectors"
    else:
        kind = "position deletes"
    return DeleteFile(
        kind=kind,
        location=entry.location,
        file_format=entry.file_format,
        sequence_number=entry.sequence_number,
        row_count=entry.row_count,
        size_bytes=entry.size_bytes,
        equality_ids=tuple(entry.equality_ids),
        content_offset=entry.content_offset,
        content_size=entry.content_size,
    )
