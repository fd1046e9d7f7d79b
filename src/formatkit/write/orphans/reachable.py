"""Everything that a table refers to."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from formatkit.scan.manifests import Manifest, read_manifest_list, read_manifests

__all__ = ["referenced_locations"]


def referenced_locations(table: Table) -> Iterator[str]:
    """The locations of all files that the table's metadata leads to, in every snapshot that it still has.

    These are the metadata file and the older ones in its log, manifest lists, manifests, the live data and delete files
    of each snapshot, and files of statistics. A location may come more than once.
    """
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in metadata.statistics)
    yield from (file.statistics_path for file in metadata.partition_statistics)
    yield from _files_of_snapshots(metadata, table.io)


def _files_of_snapshots(metadata: TableMetadata, io: FileIO) -> Iterator[str]:
    manifests: dict[str, Manifest] = {}
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        manifests.update((each.location, each) for each in read_manifest_list(snapshot.manifest_list, io))
    yield from manifests
    for entry in read_manifests(list(manifests.values()), io, metrics=False):
        yield entry.location
