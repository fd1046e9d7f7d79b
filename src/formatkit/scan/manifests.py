"""Reads manifest lists and manifests, keeping what planning needs and pyiceberg's own reader drops.

Sequence numbers, first row ids, references of deletion vectors and the names of formats that pyiceberg does not know
are kept. Fields that a scan has no use for are not decoded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import compress, repeat
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple

from pyiceberg.io import FileIO
from pyiceberg.manifest import DATA_FILE_TYPE, MANIFEST_ENTRY_SCHEMAS, MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.types import BinaryType, IcebergType, ListType, MapType, NestedField, StringType, StructType

from formatkit.errors import FormatkitError, InvalidTableError, UnsupportedError
from formatkit.scan.avro import Field, Kind, Records, read_records
from formatkit.scan.metadata_files import check_complete, load, load_manifests

__all__ = [
    "Content",
    "FieldSummary",
    "Manifest",
    "ManifestEntry",
    "partition_key",
    "read_entries",
    "read_lines",
    "read_manifest_list",
    "read_manifests",
    "unknown_spec",
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
    """One line of a manifest list.

    Attributes:
        snapshot_id: The snapshot that wrote the manifest.
        only_added: Whether only the files that this snapshot added are wanted, not those that were there before it.
    """

    location: str
    length: int
    spec_id: int
    holds_deletes: bool
    sequence_number: int
    live_files: int | None
    first_row_id: int | None
    summaries: tuple[FieldSummary, ...]
    snapshot_id: int | None = None
    only_added: bool = False


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


_ADDED = 1
_DELETED = 2
_STATUSES = frozenset({0, 1, _DELETED})
_CONTENTS = tuple(Content)
_NO_CONTENT = (None, *_CONTENTS)
_PUFFIN = "puffin"

# Field ids of the spec. The position of an id here is the position of its values in the records.
_LIST = (500, 501, 502, 517, 515, 504, 505, 512, 513, 520, 507, 503)
_FILE = (0, 3, 134, 100, 101, 102, 103, 104, 132, 142, 131, 140)
_METRICS = (109, 110, 137, 125, 128)
_DELETES = (135, 143, 144, 145)
_FIRST_METRIC, _LAST_METRIC = len(_FILE), len(_FILE) + len(_METRICS)
_SNAPSHOT_ID = 1
_DATA_FILE = 2
_LIST_REQUIRES = frozenset({500, 501, 502})
_ENTRY_REQUIRES = frozenset({0, 100, 101, 103, 104})
_NOT_NEGATIVE = (3, 4, 103, 104, 142, 144, 145)
_LIST_NOT_NEGATIVE = (501, 515, 504, 505, 506, 520)


def _fields(struct: Sequence[NestedField], required: frozenset[int], inside: int | None = None) -> dict[int, Field]:
    return {
        each.field_id: Field(each.field_id, each.name, _kind(each.field_type), each.field_id in required, inside)
        for each in struct
        if each.field_id != _DATA_FILE
    }


def _kind(stored: IcebergType) -> Kind:
    match stored:
        case MapType():
            return Kind.BOUNDS if isinstance(stored.value_type, BinaryType) else Kind.COUNTS
        case ListType():
            return Kind.SUMMARIES if isinstance(stored.element_type, StructType) else Kind.INTEGERS
        case StructType():
            return Kind.PARTITION
        case StringType():
            return Kind.STRING
    return Kind.BINARY if isinstance(stored, BinaryType) else Kind.INTEGER


# What version 3 has; older ones lack some of it.
_LIST_FIELDS = _fields(MANIFEST_LIST_FILE_SCHEMAS[3].fields, _LIST_REQUIRES)
_ENTRY_FIELDS = _fields(MANIFEST_ENTRY_SCHEMAS[3].fields, _ENTRY_REQUIRES) | _fields(
    DATA_FILE_TYPE[3].fields, _ENTRY_REQUIRES, _DATA_FILE
)


def partition_key(entry: ManifestEntry) -> tuple[Any, ...]:
    """The spec and the partition of a file, equal for equal ones only: floats by their bits, all NaN the same."""
    return (entry.spec_id, *((id_, _comparable(value)) for id_, value in sorted(entry.partition.items())))


def _comparable(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "nan" if math.isnan(value) else value.hex()


def read_manifest_list(location: str, io: FileIO) -> list[Manifest]:
    """The manifests of a snapshot, in the order of the list."""
    return [_manifest(*line) for line in read_lines(load(location, io), location, _LIST)]


def read_lines(data: bytes, location: str, ids: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """The lines of a manifest list, of which each is the values of some fields of the spec.

    Raises:
        CorruptFileError, UnsupportedError: See `read_records`.
        InvalidTableError: A value is one that the spec does not allow.
    """
    for records in read_records(data, location, tuple(_LIST_FIELDS[id_] for id_ in ids)):
        columns = dict(zip(ids, records, strict=True))
        paths = columns[500]
        _check(location, paths, paths, "manifest_path", lambda path: path != "")
        for id_ in (each for each in _LIST_NOT_NEGATIVE if each in columns):
            _check(location, paths, columns[id_], _LIST_FIELDS[id_].name, _is_not_negative)
        _check(location, paths, columns[517], "content", lambda content: content in (None, 0, 1))
        yield from zip(*records, strict=True)


def _manifest(
    location: str,
    length: int,
    spec_id: int,
    content: int | None,
    sequence_number: int | None,
    added: int | None,
    existing: int | None,
    added_rows: int | None,
    existing_rows: int | None,
    first_row_id: int | None,
    summaries: Sequence[Mapping[int, Any]] | None,
    snapshot_id: int | None,
) -> Manifest:
    live_files = None if added is None or existing is None else added + existing
    if live_files == 0 and (added_rows or existing_rows):
        # Rows without files: one of the counts is wrong, and the manifest says which.
        live_files = None
    return Manifest(
        location=location,
        length=length,
        spec_id=spec_id,
        holds_deletes=content == 1,
        sequence_number=sequence_number or 0,
        live_files=live_files,
        first_row_id=first_row_id,
        summaries=tuple(
            FieldSummary(each[509], each.get(518), each.get(510), each.get(511)) for each in summaries or ()
        ),
        snapshot_id=snapshot_id,
    )


def read_manifests(
    manifests: Sequence[Manifest], io: FileIO, *, metrics: bool, columns: Collection[int] | None = None
) -> Iterator[ManifestEntry]:
    """The live files of manifests, in order, with what they inherit; of some manifests only those that were added.

    Column metrics are decoded only if asked for, and those of some `columns` only if these are given.
    """
    for manifest, data in zip(
        manifests, load_manifests([(each.location, each.length) for each in manifests], io), strict=True
    ):
        live_files = 0
        for live, entries in _entries(manifest, data, metrics, columns):
            live_files += live
            yield from entries
        check_complete(manifest.location, found=(len(data), live_files), said=(manifest.length, manifest.live_files))


def _entries(
    manifest: Manifest, data: bytes, metrics: bool, wanted: Collection[int] | None
) -> Iterator[tuple[int, Iterator[ManifestEntry]]]:
    """The files of a manifest, some at a time: how many of them are live, and those that are wanted."""
    ids = (*_FILE, *_METRICS, *_DELETES) if manifest.holds_deletes else (*_FILE, *_METRICS) if metrics else _FILE
    if manifest.only_added:
        ids = (*ids, _SNAPSHOT_ID)
    next_row_id = manifest.first_row_id
    for columns in _checked_entries(data, manifest.location, ids, manifest.holds_deletes, wanted):
        if _DELETED in columns[0]:
            live = [status != _DELETED for status in columns[0]]
            columns = [list(compress(column, live)) for column in columns]
        added = None
        if manifest.only_added:
            *columns, snapshot_ids = columns
            added = [
                status == _ADDED and id_ in (None, manifest.snapshot_id)
                for status, id_ in zip(columns[0], snapshot_ids, strict=True)
            ]
        _, sequence_numbers, contents, locations, formats, partitions, row_counts, sizes, offsets = columns[:9]
        first_row_ids, keys, sort_orders = columns[9:_FIRST_METRIC]
        if next_row_id is not None:
            first_row_ids, next_row_id = _numbered(first_row_ids, row_counts, next_row_id)
        lower = {name: intern(name.lower()) for name in set(formats)}
        # Whole columns at a time, because there may be a million files.
        entries = map(
            ManifestEntry._make,
            zip(
                [_CONTENTS[content or 0] for content in contents],
                locations,
                map(lower.__getitem__, formats),
                repeat(manifest.spec_id),
                _without_none(partitions, _NOTHING),
                row_counts,
                sizes,
                _without_none(offsets, ()),
                _without_none(sequence_numbers, manifest.sequence_number),
                first_row_ids,
                keys,
                sort_orders,
                *(_without_none(column, _NOTHING) for column in columns[_FIRST_METRIC:_LAST_METRIC]),
                *(repeat(_NOTHING) for _ in range(_LAST_METRIC - len(columns))),
                *(columns[_LAST_METRIC:] or repeat(repeat(None), len(_DELETES))),
                strict=False,
            ),
        )
        # Those that are not wanted had to be numbered, too.
        yield len(locations), entries if added is None else compress(entries, added)


def _without_none(column: Sequence[Any], instead: Any) -> Sequence[Any]:
    return [instead if value is None else value for value in column] if None in column else column


def _numbered(own: Sequence[int | None], row_counts: Sequence[int], start: int) -> tuple[list[int], int]:
    """The first row ids of files, and what follows.

    Those without one of their own are numbered through, in the order of the manifest.
    """
    found = []
    for first_row_id, row_count in zip(own, row_counts, strict=True):
        found.append(start if first_row_id is None else first_row_id)
        start += row_count if first_row_id is None else 0
    return found, start


def read_entries(
    data: bytes, location: str, ids: Sequence[int], *, holds_deletes: bool | None = None
) -> Iterator[tuple[Any, ...]]:
    """The entries of a manifest, of which each is the values of some fields of the spec, those of its file included.

    Args:
        data: The manifest.
        location: Where it is.
        ids: The fields.
        holds_deletes: Whether the manifest list says that its files are delete files.

    Raises:
        CorruptFileError, UnsupportedError: See `read_records`.
        InvalidTableError: A value is one that the spec does not allow.
    """
    for records in _checked_entries(data, location, ids, holds_deletes):
        yield from zip(*records, strict=True)


def _checked_entries(
    data: bytes,
    location: str,
    ids: Sequence[int],
    holds_deletes: bool | None,
    columns: Collection[int] | None = None,
) -> Iterator[Records]:
    for records in read_records(data, location, tuple(_ENTRY_FIELDS[id_] for id_ in ids), columns):
        _check_entries(location, dict(zip(ids, records, strict=True)), holds_deletes)
        yield records


def _check_entries(location: str, columns: Mapping[int, Sequence[Any]], holds_deletes: bool | None) -> None:
    paths = columns[100]
    _check(location, paths, paths, "file_path", lambda path: path != "")
    _check(location, paths, columns[0], "status", _STATUSES.__contains__)
    for id_ in _NOT_NEGATIVE:
        if id_ in columns:
            _check(location, paths, columns[id_], _ENTRY_FIELDS[id_].name, _is_not_negative)
    contents = columns.get(134)
    if contents is None:
        return
    _check(location, paths, contents, "content", _NO_CONTENT.__contains__, UnsupportedError)
    if holds_deletes is not None:
        allowed = (1, 2) if holds_deletes else (None, 0)
        what = f"content, in a manifest that the manifest list calls one of {'deletes' if holds_deletes else 'data'},"
        _check(location, paths, contents, what, allowed.__contains__)
    if Content.EQUALITY_DELETES in contents and 135 in columns:
        compared = [
            tuple(ids or ()) if content == Content.EQUALITY_DELETES else (None,)
            for ids, content in zip(columns[135], contents, strict=True)
        ]
        _check(location, paths, compared, "equality_ids", bool)
    if 101 in columns and any(name.lower() == _PUFFIN for name in columns[101]):
        formats = [
            "" if content == Content.POSITION_DELETES else name
            for name, content in zip(columns[101], contents, strict=True)
        ]
        _check(location, paths, formats, "file_format", lambda name: name.lower() != _PUFFIN)


def unknown_spec(location: str, spec_id: int, known: Iterable[int]) -> InvalidTableError:
    """The error for a manifest whose files are partitioned by a spec that the table does not have."""
    message = (
        f"the manifest {location} is of the partition spec {spec_id}; the table has "
        f"{', '.join(map(str, sorted(known))) or 'none'}"
    )
    return InvalidTableError(message, location=location)


def _is_not_negative(number: int | None) -> bool:
    return number is None or number >= 0


def _check(
    location: str,
    paths: Sequence[str],
    values: Sequence[Any],
    what: str,
    is_sound: Callable[[Any], bool],
    error: type[FormatkitError] = InvalidTableError,
) -> None:
    """Raise an error that names the first of the listed files with a value that makes no sense."""
    if all(map(is_sound, set(values))):
        return
    path, value = next((path, value) for path, value in zip(paths, values, strict=True) if not is_sound(value))
    message = f"{location}: the entry of {path!r} has the {what} {value!r}, which Iceberg does not have"
    raise error(message, location=location)
