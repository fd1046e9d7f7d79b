"""Reads manifest lists and manifests, keeping what planning needs and pyiceberg's own reader drops.

Sequence numbers, first row ids, references of deletion vectors and the names of formats that pyiceberg does not know
are kept. Fields that a scan has no use for are not decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple

from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, StructType

from formatkit.scan.avro import AvroRecords, Pick
from formatkit.scan.metadata_files import check_complete, load, load_manifests

__all__ = [
    "Content",
    "FieldSummary",
    "Manifest",
    "ManifestEntry",
    "read_manifest_list",
    "read_manifests",
    "summary_ids",
]


_NOTHING: Mapping[int, Any] = MappingProxyType({})


class Content(IntEnum):
    """What a listed file holds."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What a manifest list says about one partition field of all files in a manifest; bounds are undecoded."""

    contains_null: bool
    contains_nan: bool | None
    lower: bytes | None
    upper: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One line of a manifest list."""

    location: str
    length: int
    spec_id: int
    holds_deletes: bool
    sequence_number: int
    live_files: int | None
    first_row_id: int | None
    summaries: tuple[FieldSummary, ...]


class ManifestEntry(NamedTuple):
    """One live file. Maps of metrics are by field id, bounds undecoded; the partition is by partition field id."""

    content: Content
    location: str
    file_format: str
    spec_id: int
    partition: Mapping[int, Any]
    row_count: int
    size_bytes: int
    split_offsets: Sequence[int]
    sequence_number: int
    first_row_id: int | None = None
    key_metadata: bytes | None = None
    sort_order_id: int | None = None
    value_counts: Mapping[int, int] = _NOTHING
    null_counts: Mapping[int, int] = _NOTHING
    nan_counts: Mapping[int, int] = _NOTHING
    lower_bounds: Mapping[int, bytes] = _NOTHING
    upper_bounds: Mapping[int, bytes] = _NOTHING
    equality_ids: Sequence[int] | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None


_DELETED = 2
_CONTENTS = tuple(Content)

# Field ids of the spec. The position of an id here is the position of its value in a decoded record.
_LIST: Pick = (500, 501, 502, 517, 515, 504, 505, 520, 507)
_SUMMARIES_ID = 507
_FILE = (134, 100, 101, 102, 103, 104, 132, 142, 131, 140)
_METRICS = (109, 110, 137, 125, 128)
_LAST_METRIC = len(_FILE) + len(_METRICS)
_DELETES = (135, 143, 144, 145)


def _entry_pick(*groups: Sequence[int]) -> Pick:
    return (0, 3, (2, tuple(chain(*groups))))


_PLAIN_ENTRY = _entry_pick(_FILE)
_ENTRY_WITH_METRICS = _entry_pick(_FILE, _METRICS)
_DELETE_ENTRY = _entry_pick(_FILE, _METRICS, _DELETES)


def partition_key(entry: ManifestEntry) -> tuple[Any, ...]:
    """The spec and the partition of a file, equal for equal ones only: floats by their bits, all NaN the same."""
    return (entry.spec_id, *((id_, _comparable(value)) for id_, value in sorted(entry.partition.items())))


def _comparable(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "nan" if math.isnan(value) else value.hex()


def read_manifest_list(location: str, io: FileIO) -> list[Manifest]:
    """The manifests of a snapshot, in the order of the list."""
    records = AvroRecords(load(location, io), location, _LIST)
    stored = summary_ids(records.file_schema)
    return [_manifest(record, stored) for record in records]


def summary_ids(file_schema: Schema) -> tuple[int, ...]:
    """The facts about a partition field in the order in which this manifest list stores them; old ones know fewer."""
    if _SUMMARIES_ID not in file_schema.field_ids:
        return ()
    summaries = file_schema.find_type(_SUMMARIES_ID)
    element = summaries.element_type if isinstance(summaries, ListType) else None
    return tuple(field.field_id for field in element.fields) if isinstance(element, StructType) else ()


def _manifest(record: Any, stored: Sequence[int]) -> Manifest:
    location, length, spec_id, content, sequence_number, added, existing, first_row_id, summaries = (
        record[position] for position in range(len(_LIST))
    )
    return Manifest(
        location=location,
        length=length,
        spec_id=spec_id,
        holds_deletes=content == 1,
        sequence_number=sequence_number or 0,
        live_files=None if added is None or existing is None else added + existing,
        first_row_id=first_row_id,
        summaries=tuple(_summary(each, stored) for each in summaries or ()),
    )


def _summary(record: Any, stored: Sequence[int]) -> FieldSummary:
    by_id: dict[int, Any] = {id_: record[position] for position, id_ in enumerate(stored)}
    return FieldSummary(by_id[509], by_id.get(518), by_id.get(510), by_id.get(511))


def read_manifests(manifests: Sequence[Manifest], io: FileIO, *, metrics: bool) -> Iterator[ManifestEntry]:
    """The live files of manifests, in order, with what they inherit. Column metrics are decoded only if asked for."""
    for manifest, data in zip(
        manifests, load_manifests([(each.location, each.length) for each in manifests], io), strict=True
    ):
        live_files = 0
        for entry in _entries(manifest, data, metrics=metrics):
            live_files += 1
            yield entry
        check_complete(manifest.location, found=(len(data), live_files), said=(manifest.length, manifest.live_files))


def _entries(manifest: Manifest, data: bytes, *, metrics: bool) -> Iterator[ManifestEntry]:
    pick = _DELETE_ENTRY if manifest.holds_deletes else _ENTRY_WITH_METRICS if metrics else _PLAIN_ENTRY
    records = AvroRecords(data, manifest.location, pick)
    partition_ids = _partition_ids(records.file_schema)
    next_row_id = manifest.first_row_id
    for record in records:
        status, sequence_number, data_file = record[0], record[1], record[2]
        if status == _DELETED:
            continue
        if sequence_number is None:
            sequence_number = manifest.sequence_number
        entry = _entry(data_file, manifest.spec_id, partition_ids, sequence_number, next_row_id)
        # Files without a first row id of their own are numbered through, in the order of the manifest.
        if next_row_id is not None and data_file[7] is None:
            next_row_id += entry.row_count
        yield entry


def _entry(
    data_file: list[Any], spec_id: int, partition_ids: Sequence[int], sequence_number: int, next_row_id: int | None
) -> ManifestEntry:
    content, location, file_format, partition, row_count, size, offsets, first_row_id, key, sort_order_id = data_file[
        : len(_FILE)
    ]
    extra: list[Any] = [_NOTHING if each is None else each for each in data_file[len(_FILE) : _LAST_METRIC]]
    return ManifestEntry(
        _CONTENTS[content or 0],
        location,
        intern(file_format.lower()),
        spec_id,
        dict.fromkeys(partition_ids) if partition is None else dict(zip(partition_ids, partition, strict=True)),
        row_count,
        size,
        offsets or (),
        sequence_number,
        next_row_id if first_row_id is None else first_row_id,
        key,
        sort_order_id,
        *extra,
        *data_file[_LAST_METRIC:],
    )


def _partition_ids(file_schema: Schema) -> tuple[int, ...]:
    """The partition fields in the order in which this manifest stores them."""
    partition = file_schema.find_field(102).field_type
    return tuple(each.field_id for each in partition.fields) if isinstance(partition, StructType) else ()
