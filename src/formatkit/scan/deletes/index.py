"""Finds the delete files that apply to a data file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Any

from formatkit.contract.metadata_columns import DELETED_PATH
from formatkit.contract.pruning import Hint, count_dropped
from formatkit.errors import InvalidTableError, UnsupportedError
from formatkit.forks import cached
from formatkit.scan.bounds import ManifestMetrics
from formatkit.scan.deletes.key_bounds import KeyRange, key_ranges, may_meet
from formatkit.scan.deletes.keys import KeySchemas
from formatkit.scan.deletes.locations import canonical_location
from formatkit.scan.manifests import Content, ManifestEntry, partition_key
from formatkit.scan.tasks import DELETION_VECTORS, EQUALITY_DELETES, POSITION_DELETES, PUFFIN, DeleteFile

__all__ = ["DeleteIndex"]

Scope = tuple[Any, ...]
EVERYWHERE: Scope = ()


class DeleteIndex:
    """Delete files by what they may apply to, so that a data file is checked against its own candidates only.

    Args:
        entries: All delete files of a snapshot, in any order.
        keys: The columns of equality deletes.
        unpartitioned: The ids of specs without partitions, whose equality deletes apply to the whole table.
        constants: Gives the values of identity-partitioned columns of a delete file, by field id.
        counters: Where to count metrics that are dropped.
    """

    def __init__(
        self,
        entries: Iterable[ManifestEntry],
        keys: KeySchemas,
        unpartitioned: Collection[int] = (),
        constants: Callable[[ManifestEntry], Mapping[int, Any]] = lambda _: {},
        counters: MutableMapping[str, int] | None = None,
    ) -> None:
        self._counters = {} if counters is None else counters
        self._vectors: dict[str, list[_Delete]] = defaultdict(list)
        self._referring: dict[str, list[_Delete]] = defaultdict(list)
        self._bounded: dict[str, list[_Delete]] = defaultdict(list)
        self._positions: dict[Scope, list[_Delete]] = defaultdict(list)
        self._equality: dict[Scope, list[_Delete]] = defaultdict(list)
        self._key_columns: dict[int, Any] = {}
        for entry in sorted(entries, key=lambda each: each.sequence_number):
            scope = partition_key(entry)
            if entry.content is Content.EQUALITY_DELETES and entry.spec_id in unpartitioned:
                scope = EVERYWHERE
            self._add(_Delete(entry, scope, keys, constants, self._counters))
        self._is_empty = not (self._vectors or self._referring or self._bounded or self._positions or self._equality)
        self._lengths = sorted({len(path) for path in self._bounded})

    def _add(self, delete: _Delete) -> None:
        entry = delete.entry
        if entry.content is Content.EQUALITY_DELETES:
            self._equality[delete.scope].append(delete)
            self._key_columns |= delete.key_columns
        elif entry.file_format == PUFFIN:
            self._vectors[canonical_location(_reference(entry))].append(delete)
        elif entry.referenced_data_file is not None:
            self._referring[canonical_location(entry.referenced_data_file)].append(delete)
        elif delete.paths is not None and delete.paths[0] == delete.paths[1]:
            self._bounded[delete.paths[0]].append(delete)
        else:
            self._positions[delete.scope].append(delete)

    @property
    def compared_columns(self) -> Collection[int]:
        """The columns by whose metrics data files may be spared equality deletes."""
        return self._key_columns.keys()

    def applying_to(self, data: ManifestEntry) -> tuple[DeleteFile, ...]:
        """The delete files that may delete rows of a data file.

        Raises:
            InvalidTableError: What the table says about its deletes contradicts itself.
            UnsupportedError: One of them is encrypted.
        """
        if self._is_empty:
            return ()
        path, scope = canonical_location(data.location), partition_key(data)
        found = self._vector(data, path, scope) or self._position_deletes(data, path, scope)
        return tuple(each.file for each in (*found, *self._equality_deletes(data, scope)))

    def _vector(self, data: ManifestEntry, path: str, scope: Scope) -> list[_Delete]:
        vectors = self._vectors.get(path, [])
        if len(vectors) > 1:
            places = ", ".join(sorted(each.entry.location for each in vectors))
            message = f"{data.location} has {len(vectors)} deletion vectors, in {places}; a data file has one at most"
            raise InvalidTableError(message, location=data.location)
        for each in vectors:
            _check_partition(each, data, scope)
            if each.entry.sequence_number < data.sequence_number:
                message = (
                    f"the deletion vector of {data.location} in {each.entry.location} has the sequence number "
                    f"{each.entry.sequence_number}, which is below {data.sequence_number} of the data file"
                )
                raise InvalidTableError(message, location=data.location)
        return vectors

    def _position_deletes(self, data: ManifestEntry, path: str, scope: Scope) -> list[_Delete]:
        named = list(self._referring.get(path, ()))
        candidates = list(self._positions.get(scope, ()))
        for length in self._lengths:
            if length > len(path):
                break
            # A bound may be the beginning of a location only, if it was cut.
            (named if length == len(path) else candidates).extend(self._bounded.get(path[:length], ()))
        for each in named:
            _check_partition(each, data, scope)
        return [
            each
            for each in (*named, *candidates)
            if each.entry.sequence_number >= data.sequence_number and each.scope == scope and each.may_name(path)
        ]

    @cached
    def _key_metrics(self) -> ManifestMetrics:
        return ManifestMetrics(self._key_columns.values(), counters=self._counters)

    def _equality_deletes(self, data: ManifestEntry, scope: Scope) -> list[_Delete]:
        candidates: list[_Delete] = []
        for deletes in (self._equality.get(scope), self._equality.get(EVERYWHERE) if scope != EVERYWHERE else None):
            if deletes and deletes[-1].entry.sequence_number > data.sequence_number:
                start = bisect_right(deletes, data.sequence_number, key=lambda each: each.entry.sequence_number)
                candidates += deletes[start:]
        if not candidates:
            return []
        ranges = key_ranges(self._key_metrics, data, self._key_columns.values())
        return [each for each in candidates if may_meet(each.key_ranges, ranges)]


class _Delete:
    """A delete file and what is found out about it once, for all data files."""

    def __init__(
        self,
        entry: ManifestEntry,
        scope: Scope,
        keys: KeySchemas,
        constants: Callable[[ManifestEntry], Mapping[int, Any]],
        counters: MutableMapping[str, int],
    ) -> None:
        self.entry = entry
        self.scope = scope
        self._keys = keys
        self._constants = constants
        self._counters = counters

    @cached
    def file(self) -> DeleteFile:
        entry = self.entry
        if entry.key_metadata is not None:
            message = f"{entry.location} is encrypted; reading encrypted tables is not supported"
            raise UnsupportedError(message, location=entry.location)
        return DeleteFile(
            kind=_kind(entry),
            location=entry.location,
            file_format=entry.file_format,
            sequence_number=entry.sequence_number,
            row_count=entry.row_count,
            size_bytes=entry.size_bytes,
            equality_ids=_ids(entry),
            scope=self.scope,
            partition_constants=self._constants(entry),
            referenced_data_file=entry.referenced_data_file,
            content_offset=entry.content_offset,
            content_size=entry.content_size,
        )

    @cached
    def key_columns(self) -> dict[int, Any]:
        ids = _ids(self.entry)
        schema = self._keys.of(ids)
        return {id_: schema.find_field(id_) for id_ in ids}

    @cached
    def key_ranges(self) -> dict[int, KeyRange]:
        columns = self.key_columns.values()
        return key_ranges(ManifestMetrics(columns, counters=self._counters), self.entry, columns)

    @cached
    def paths(self) -> tuple[str, str] | None:
        """The least and the greatest location that rows name; None if that is not known, or cannot be compared."""
        bounds = [
            self.entry.lower_bounds.get(DELETED_PATH.field_id),
            self.entry.upper_bounds.get(DELETED_PATH.field_id),
        ]
        try:
            lower, upper = (None if each is None else each.decode() for each in bounds)
        except UnicodeDecodeError:
            count_dropped(self._counters, Hint.MANIFEST_METRICS)
            return None
        if lower is not None and upper is not None and lower > upper:
            count_dropped(self._counters, Hint.MANIFEST_METRICS)
            return None
        if lower is None or upper is None or _root(lower) is None or _root(lower) != _root(upper):
            return None
        return canonical_location(lower), canonical_location(upper)

    def may_name(self, path: str) -> bool:
        if self.entry.referenced_data_file is not None or self.paths is None or _root(path) != _root(self.paths[0]):
            return True
        lower, upper = self.paths
        return lower <= path and (path <= upper or path.startswith(upper))


def _root(location: str) -> str | None:
    """Where a location is, as far as it must agree for locations to be compared; None if it was cut before that."""
    scheme, slash, _ = canonical_location(location).partition("/")
    return scheme if slash else None


def _kind(entry: ManifestEntry) -> str:
    if entry.content is Content.EQUALITY_DELETES:
        return EQUALITY_DELETES
    return DELETION_VECTORS if entry.file_format == PUFFIN else POSITION_DELETES


def _ids(entry: ManifestEntry) -> tuple[int, ...]:
    return tuple(sorted(set(entry.equality_ids or ())))


def _reference(entry: ManifestEntry) -> str:
    if entry.referenced_data_file is None or entry.content_offset is None or entry.content_size is None:
        message = f"a deletion vector in {entry.location} is listed without its data file, its offset or its size"
        raise InvalidTableError(message, location=entry.location)
    return entry.referenced_data_file


def _check_partition(delete: _Delete, data: ManifestEntry, scope: Scope) -> None:
    if delete.scope != scope:
        message = (
            f"{delete.entry.location} deletes rows of {data.location}, but the one is of the partition "
            f"{_shown(delete.entry)} and the other of {_shown(data)}"
        )
        raise InvalidTableError(message, location=data.location)


def _shown(entry: ManifestEntry) -> str:
    values = ", ".join(f"{id_}={value!r}" for id_, value in sorted(entry.partition.items()))
    return f"({values}) of spec {entry.spec_id}"
