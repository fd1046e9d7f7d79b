"""Manifest lists and manifests, read whole: what is written back must not lose a field.

Records have the fields of format version 3 whatever the version of the file; those that it lacks are None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_LIST_FILE_SCHEMAS,
    PARTITION_FIELD_SUMMARY_TYPE,
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from formatkit.contract.metadata_columns import DELETED_PATH
from formatkit.scan.manifests import read_entries, read_lines, unknown_spec
from formatkit.scan.metadata_files import check_complete, load, load_manifests
from formatkit.write.commit.change import DeleteKey

__all__ = [
    "ManifestReader",
    "complete",
    "content_place",
    "content_size",
    "delete_key",
    "first_row_id",
    "is_deletion_vector",
    "is_live",
    "manifest_first_row_id",
    "named_data_file",
    "path_bounds",
    "referenced_data_file",
]

_LINE_IDS = tuple(field.field_id for field in MANIFEST_LIST_FILE_SCHEMAS[3].fields)
_SUMMARY_IDS = tuple(field.field_id for field in PARTITION_FIELD_SUMMARY_TYPE.fields)
_FILE_IDS = tuple(field.field_id for field in DATA_FILE_TYPE[3].fields)
_ENTRY_IDS = (0, 1, 3, 4, *_FILE_IDS)
_LOCATION_IDS = (0, 100)

# Positions of the fields for which pyiceberg's classes have no names.
_FIRST_ROW_ID, _REFERENCED, _OFFSET, _SIZE = (_FILE_IDS.index(id_) for id_ in (142, 143, 144, 145))
_MANIFEST_FIRST_ROW_ID = _LINE_IDS.index(520)
_COUNTS = tuple(_LINE_IDS.index(id_) for id_ in (504, 505, 506, 512, 513, 514))


def complete(file: DataFile) -> DataFile:
    """The same file with all fields of version 3."""
    values = [file[position] for position in range(len(file))]
    whole = DataFile(*values, *[None] * (len(_FILE_IDS) - len(values)))
    whole.spec_id = file.spec_id
    return whole


def content_size(file: DataFile) -> int:
    """How many bytes are the file's own: a deletion vector is only a part of what it is stored in."""
    return _optional(file, _SIZE) or file.file_size_in_bytes


def content_place(file: DataFile) -> tuple[int, int]:
    """Where in its file a deletion vector begins, and how long it is."""
    return _optional(file, _OFFSET) or 0, _optional(file, _SIZE) or 0


def first_row_id(file: DataFile) -> int | None:
    """The id of the file's first row."""
    number: int | None = _optional(file, _FIRST_ROW_ID)
    return number


def is_deletion_vector(file: DataFile) -> bool:
    """Whether a file is a part of a Puffin file that deletes rows of one data file."""
    return file.content == DataFileContent.POSITION_DELETES and _optional(file, _OFFSET) is not None


def delete_key(file: DataFile) -> DeleteKey:
    """What tells a delete file from all others."""
    return file.file_path, _optional(file, _OFFSET)


def named_data_file(file: DataFile) -> str | None:
    """The data file to which the entry of a delete file says that it refers, if it says so."""
    name: str | None = _optional(file, _REFERENCED)
    return name


def referenced_data_file(file: DataFile) -> str | None:
    """The one data file whose rows a position delete file or deletion vector deletes; None if there may be several."""
    if file.content != DataFileContent.POSITION_DELETES or named_data_file(file) is not None:
        return named_data_file(file)
    lower, upper = path_bounds(file)
    # Bounds that were cut off are no location, so that nothing is taken for what they name.
    return lower.decode(errors="replace") if lower is not None and lower == upper else None


def path_bounds(file: DataFile) -> tuple[bytes | None, bytes | None]:
    """The least and the greatest location that position deletes name."""
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    return lower.get(DELETED_PATH.field_id), upper.get(DELETED_PATH.field_id)


def manifest_first_row_id(manifest: ManifestFile) -> int | None:
    """Where the numbers of those rows begin that get one from the manifest."""
    number: int | None = _optional(manifest, _MANIFEST_FIRST_ROW_ID)
    return number


def _optional(record: Record, position: int) -> Any:
    return record[position] if position < len(record) else None


class ManifestReader:
    """Reads the manifests of a table."""

    def __init__(self, metadata: TableMetadata, io: FileIO) -> None:
        self._io = io
        self._partition_ids = {
            id_: tuple(field.field_id for field in spec.fields) for id_, spec in metadata.specs().items()
        }

    def manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot that list live files, in the order of the list."""
        manifests = [self._counted(each) for each in self.lines(snapshot)]
        return [each for each in manifests if each.has_added_files() or each.has_existing_files()]

    def own_manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests that were written for a snapshot, those that list deleted files only included."""
        return [each for each in self.lines(snapshot) if each.added_snapshot_id == snapshot.snapshot_id]

    def lines(self, snapshot: Snapshot | None) -> Iterator[ManifestFile]:
        """All manifests of a snapshot as its manifest list has them, those without live files included."""
        if snapshot is not None:
            location = snapshot.manifest_list
            yield from map(_manifest, read_lines(load(location, self._io), location, _LINE_IDS))

    def locations(self, manifests: Sequence[ManifestFile]) -> Iterator[tuple[ManifestFile, set[str]]]:
        """Where the live files of each manifest are; nothing else is decoded."""
        wanted = [(each.manifest_path, each.manifest_length) for each in manifests]
        for manifest, data in zip(manifests, load_manifests(wanted, self._io), strict=True):
            entries = read_entries(data, manifest.manifest_path, _LOCATION_IDS)
            live = [location for status, location in entries if status != ManifestEntryStatus.DELETED]
            _check_complete(manifest, data, len(live))
            yield manifest, set(live)

    def entries(self, manifest: ManifestFile) -> Iterator[ManifestEntry]:
        """The entries of a manifest with what they inherit from it, those of deleted files included.

        Partition values are in the order of the partition spec.
        """
        [data] = load_manifests([(manifest.manifest_path, manifest.manifest_length)], self._io)
        partition_ids = self._spec_fields(manifest)
        holds_deletes = manifest.content == ManifestContent.DELETES
        next_row_id, live_files = manifest_first_row_id(manifest), 0
        for record in read_entries(data, manifest.manifest_path, _ENTRY_IDS, holds_deletes=holds_deletes):
            values = list(record[4:])
            values[0] = DataFileContent(values[0] or 0)
            values[3] = Record(*map((values[3] or {}).get, partition_ids))
            entry = _entry(record, manifest, DataFile(*values))
            # Files without a first row id of their own are numbered through, in the order of the manifest.
            if next_row_id is not None and is_live(entry) and values[_FIRST_ROW_ID] is None:
                entry.data_file[_FIRST_ROW_ID] = next_row_id
                next_row_id += entry.data_file.record_count
            live_files += is_live(entry)
            yield entry
        _check_complete(manifest, data, live_files)

    def _spec_fields(self, manifest: ManifestFile) -> tuple[int, ...]:
        fields = self._partition_ids.get(manifest.partition_spec_id)
        if fields is None:
            raise unknown_spec(manifest.manifest_path, manifest.partition_spec_id, self._partition_ids)
        return fields

    def live_entries(self, manifest: ManifestFile) -> Iterator[ManifestEntry]:
        return filter(is_live, self.entries(manifest))

    def _counted(self, manifest: ManifestFile) -> ManifestFile:
        """The same with its counts, which lists of version 1 may lack and those of later versions must have."""
        if None not in (manifest[position] for position in _COUNTS):
            return manifest
        files, rows = Counter[ManifestEntryStatus](), Counter[ManifestEntryStatus]()
        for entry in self.entries(manifest):
            files[entry.status] += 1
            rows[entry.status] += entry.data_file.record_count
        order = ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED
        counts = [*(files[status] for status in order), *(rows[status] for status in order)]
        for position, count in zip(_COUNTS, counts, strict=True):
            manifest[position] = count
        return manifest


def _check_complete(manifest: ManifestFile, data: bytes, live_files: int) -> None:
    added, existing = manifest.added_files_count, manifest.existing_files_count
    known = None if added is None or existing is None else added + existing
    check_complete(manifest.manifest_path, found=(len(data), live_files), said=(manifest.manifest_length, known))


def is_live(entry: ManifestEntry) -> bool:
    """Whether the file belongs to the snapshot."""
    return entry.status != ManifestEntryStatus.DELETED


def _manifest(line: Sequence[Any]) -> ManifestFile:
    values = list(line)
    values[3] = ManifestContent(values[3] or 0)
    values[4], values[5] = values[4] or 0, values[5] or 0
    if values[13] is not None:
        values[13] = [PartitionFieldSummary(*map(each.get, _SUMMARY_IDS)) for each in values[13]]
    return ManifestFile(*values)


def _entry(record: Sequence[Any], manifest: ManifestFile, file: DataFile) -> ManifestEntry:
    status = ManifestEntryStatus(record[0])
    snapshot_id, sequence_number, file_sequence_number = record[1], record[2], record[3]
    # Files of version 1 have no sequence number, which counts as zero.
    inherits = status == ManifestEntryStatus.ADDED or manifest.sequence_number == 0
    # The manifests of a snapshot that is being built have no number yet.
    inherited = manifest.sequence_number if inherits and manifest.sequence_number != UNASSIGNED_SEQ else None
    file.spec_id = manifest.partition_spec_id
    return ManifestEntry(
        status,
        manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
        inherited if sequence_number is None else sequence_number,
        inherited if file_sequence_number is None else file_sequence_number,
        file,
    )
