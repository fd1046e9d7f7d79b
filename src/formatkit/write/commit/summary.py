"""The summary of a snapshot: the counters of the specification, spelled as Java spells them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.utils.properties import property_as_int

from formatkit.write.commit.records import content_size, is_deletion_vector
from formatkit.write.locations import partition_path

__all__ = ["summarise"]

# What each total is made of: the counters that add to it, and those that take from it.
_TOTALS = {
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


def summarise(
    operation: Operation,
    added: Iterable[DataFile],
    removed: Iterable[DataFile],
    *,
    metadata: TableMetadata,
    previous: Mapping[str, str] | None,
    properties: Mapping[str, str],
) -> Summary:
    """Count what a snapshot changes.

    Args:
        operation: What the snapshot is called.
        added: Data files and delete files.
        removed: The same.
        metadata: The table's.
        previous: The summary of the parent; None if there is no parent.
        properties: The caller's own; they cannot replace what is said here.
    """
    counters: Counter[str] = Counter()
    partitions: dict[str, Counter[str]] = defaultdict(Counter)
    for verb, files in (("added", added), ("removed", removed)):
        for file in files:
            _count(verb, file, counters)
            _count(verb, file, partitions[_partition_path(file, metadata)])
    summary = {name: text for name, text in properties.items() if name != "operation"}
    summary.update(_texts(counters))
    summary.update(_partition_summaries(partitions, metadata))
    summary.update(_totals(counters, previous))
    return Summary(operation, **summary)


def _count(verb: str, file: DataFile, counters: Counter[str]) -> None:
    counters[f"{verb}-files-size"] += content_size(file)
    if file.content == DataFileContent.DATA:
        data_verb = "deleted" if verb == "removed" else verb
        counters[f"{data_verb}-data-files"] += 1
        counters[f"{data_verb}-records"] += file.record_count
        return
    counters[f"{verb}-delete-files"] += 1
    if file.content == DataFileContent.EQUALITY_DELETES:
        counters[f"{verb}-equality-delete-files"] += 1
        counters[f"{verb}-equality-deletes"] += file.record_count
    else:
        counters[f"{verb}-dvs" if is_deletion_vector(file) else f"{verb}-position-delete-files"] += 1
        counters[f"{verb}-position-deletes"] += file.record_count


def _texts(counters: Mapping[str, int]) -> dict[str, str]:
    return {name: str(count) for name, count in counters.items() if count > 0}


def _partition_path(file: DataFile, metadata: TableMetadata) -> str:
    spec = metadata.specs()[file.spec_id]
    return partition_path(spec, metadata.schema(), file.partition)


def _partition_summaries(partitions: Mapping[str, Mapping[str, int]], metadata: TableMetadata) -> dict[str, str]:
    limit = property_as_int(
        metadata.properties,
        TableProperties.WRITE_PARTITION_SUMMARY_LIMIT,
        TableProperties.WRITE_PARTITION_SUMMARY_LIMIT_DEFAULT,
    )
    found = {"changed-partition-count": str(len(partitions))}
    if 0 < len(partitions) <= (limit or 0):
        found["partition-summaries-included"] = "true"
        for path, counters in partitions.items():
            found[f"partitions.{path}"] = ",".join(f"{name}={text}" for name, text in _texts(counters).items())
    return found


def _totals(counters: Mapping[str, int], previous: Mapping[str, str] | None) -> dict[str, str]:
    """The totals after the snapshot. One that the parent does not tell cannot be told, either."""
    totals = {}
    for name, (plus, minus) in _TOTALS.items():
        before = "0" if previous is None else previous.get(name)
        if before is not None and before.isdecimal():
            total = int(before) + counters.get(plus, 0) - counters.get(minus, 0)
            if total >= 0:
                totals[name] = str(total)
    return totals
