"""Merges small manifests, so that their number stays bounded however often a table is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table import TableProperties
from pyiceberg.typedef import Properties
from pyiceberg.utils.bin_packing import ListPacker
from pyiceberg.utils.properties import property_as_bool, property_as_int

from formatkit.write.commit.manifests import ManifestFiles
from formatkit.write.commit.records import ManifestReader, is_live

__all__ = ["merge"]

_DEFAULT_MIN_COUNT = 100


def merge(
    manifests: Sequence[ManifestFile],
    *,
    snapshot_id: int,
    properties: Properties,
    reader: ManifestReader,
    output: ManifestFiles,
) -> list[ManifestFile]:
    """Merge manifests of one content, the newest first, up to the target size.

    The newest are merged only once there are `commit.manifest.min-count-to-merge` of them: otherwise each commit would
    rewrite what the one before has written.
    """
    # Merging is on by default in Iceberg; pyiceberg's own default differs.
    if not property_as_bool(properties, TableProperties.MANIFEST_MERGE_ENABLED, default=True) or not manifests:
        return list(manifests)
    min_count = property_as_int(properties, TableProperties.MANIFEST_MIN_MERGE_COUNT, _DEFAULT_MIN_COUNT)
    by_spec: dict[int, list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        by_spec[manifest.partition_spec_id].append(manifest)
    packer: ListPacker[ManifestFile] = ListPacker(output.target_bytes, lookback=1, largest_bin_first=False)
    merged: list[ManifestFile] = []
    for spec_id in sorted(by_spec, reverse=True):
        for group in packer.pack_end(by_spec[spec_id], lambda manifest: manifest.manifest_length):
            too_few = manifests[0] in group and len(group) < (min_count or _DEFAULT_MIN_COUNT)
            if len(group) == 1 or too_few:
                merged += group
            else:
                entries = _entries(group, snapshot_id, reader, output)
                merged += output.write(group[0].content, spec_id, entries)
    return merged


def _entries(
    group: Sequence[ManifestFile], snapshot_id: int, reader: ManifestReader, output: ManifestFiles
) -> Iterator[ManifestEntry]:
    """What the merged manifest lists. Of deleted files only those of this snapshot matter."""
    for manifest in group:
        for entry in reader.entries(manifest):
            if is_live(entry):
                yield output.kept(entry)
            elif entry.snapshot_id == snapshot_id:
                yield entry
