"""Finds the delete files that apply to a data file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple

from formatkit.contract.metadata_columns import DELETED_PATH
from formatkit.contract.pruning import Hint, count_dropped
from formatkit.errors import InvalidTableError
from formatkit.forks import cached
from formatkit.scan.bounds import ManifestMetrics
from formatkit.scan.deletes.key_bounds import KeyRange, key_ranges, may_meet
from formatkit.scan.deletes.keys import KeySchemas
from formatkit.scan.deletes.locations import Locations, Spelling, begins_one, spelling
from formatkit.scan.manifests import Content, ManifestEntry, partition_key
from formatkit.scan.tasks import DELETION_VECTORS, EQUALITY_DELETES, POSITION_DELETES, PUFFIN, DeleteFile, FileTask

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
        locations: Compares the locations of data files.
        counters: Where to count metrics that are dropped.
    """

    def __init__(
        self,
        entries: Iterable[ManifestEntry],
        keys: KeySchemas,
        unpartitioned: Collection[int] = (),
        constants: Callable[[ManifestEntry], Mapping[int, Any]] = lambda _: {},
        locations: Locations | None = None,
        counters: MutableMapping[str, int] | None = None,
    ) -> None:
        self._locations = locations or Locations()
        self._counters = {} if counters is None else counters
        self._vectors: dict[str, list[_Delete]] = defaultdict(list)
        self._referring: dict[str, list[_Delete]] = defaultdict(list)
        self._bounded: dict[str, list[_Delete]] = defaultdict(list)
        self._positions: dict[Scope, list[_Delete]] = defaultdict(list)
        self._equality: dict[Scope, list[_Delete]] = defaultdict(list)
        self._key_columns: dict[int, Any] = {}
        self._matched: set[str] = set()
        for entry in sorted(entries, key=lambda each: each.sequence_number):
            scope = partition_key(entry)
            if entry.content is Content.EQUALITY_DELETES and entry.spec_id in unpartitioned:
                scope = EVERYWHERE
            self._add(_Delete(entry, scope, keys, constants, self._locations, self._counters))
        self._is_empty = not (self._vectors or self._referring or self._bounded or self._positions or self._equality)
        self._lengths = sorted({len(path) for path in self._bounded})

    def _add(self, delete: _Delete) -> None:
        entry = delete.entry
        if entry.content is Content.EQUALITY_DELETES:
            self._equality[delete.scope].append(delete)
            self._key_columns |= delete.key_columns
        elif entry.file_format == PUFFIN:
            self._vectors[self._locations.canonical(_reference(entry))].append(delete)
        elif entry.referenced_data_file is not None:
            self._referring[self._locations.canonical(entry.referenced_data_file)].append(delete)
        elif delete.paths is not None and delete.paths.lower == delete.paths.upper:
            self._bounded[delete.paths.lower].append(delete)
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
        """
        if self._is_empty:
            return ()
        path, scope = self._locations.canonical(data.location), partition_key(data)
        found = self._vector(data, path, scope) or self._position_deletes(data, path, scope)
        return tuple(each.file for each in (*found, *self._equality_deletes(data, scope)))

    def _vector(self, data: ManifestEntry, path: str, scope: Scope) -> list[_Delete]:
        vectors = self._vectors.get(path, [])
        if len(vectors) > 1:
            places = ", ".join(sorted(each.entry.location for each in vectors))
            message = f"{data.location} has {len(vectors)} deletion vectors, in {places}; a data file has one at most"
            raise InvalidTableError(message, location=data.location)
        for each in vectors:
            self._matched.add(path)
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
            self._matched.add(path)
            _check_partition(each, data, scope)
        if candidates:
            spelled = frozenset({spelling(path)})
            named += [each for each in candidates if each.scope == scope and each.may_name(path, spelled)]
        return [each for each in named if each.entry.sequence_number >= data.sequence_number]

    def check_spellings(self, tasks: Iterable[FileTask], live: Callable[[], Iterable[ManifestEntry]]) -> None:
        """Raise an error if deletes name no data file, but the path of one of the tasks, spelled otherwise.

        Deletes of files that are not live any more may stay in a table.

        Args:
            tasks: What was planned.
            live: Gives all data files of the snapshot. It is called only if there is a doubt.

        Raises:
            InvalidTableError: Deletes would not apply because of a spelling.
        """
        if self._locations.ignores_mismatches:
            return
        unmatched = (self._vectors.keys() | self._referring.keys() | self._bounded.keys()) - self._matched
        if not unmatched:
            return
        ages = {task.location: task.sequence_number or 0 for task in tasks}
        doubts = [
            (delete, named, location)
            for named, location in self._locations.same_paths(unmatched, ages)
            for deletes in (self._vectors, self._referring, self._bounded)
            for delete in deletes.get(named, ())
            if delete.entry.sequence_number >= ages[location]
        ]
        known = sorted({self._locations.canonical(each.location) for each in live()}) if doubts else []
        for delete, named, location in doubts:
            if not begins_one(named, known):
                raise self._locations.mismatch(delete.entry.location, named, location)

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
        locations: Locations,
        counters: MutableMapping[str, int],
    ) -> None:
        self.entry = entry
        self._locations = locations
        self.scope = scope
        self._keys = keys
        self._constants = constants
        self._counters = counters

    @cached
    def file(self) -> DeleteFile:
        entry = self.entry
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
            spellings=self._spellings() if entry.referenced_data_file is None else frozenset(),
            has_key=entry.key_metadata is not None,
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
    def paths(self) -> _Paths | None:
        """What bounds say about the locations that rows name; None if that is nothing."""
        bounds = (
            self.entry.lower_bounds.get(DELETED_PATH.field_id),
            self.entry.upper_bounds.get(DELETED_PATH.field_id),
        )
        try:
            lower, upper = (None if each is None else self._locations.canonical(each.decode()) for each in bounds)
        except UnicodeDecodeError:
            count_dropped(self._counters, Hint.MANIFEST_METRICS)
            return None
        if lower is not None and upper is not None and lower > upper:
            count_dropped(self._counters, Hint.MANIFEST_METRICS)
            return None
        if lower is None or upper is None:
            return None
        spelled = frozenset({spelling(lower)} if lower == upper else {spelling(lower), spelling(upper)})
        return None if None in spelled else _Paths(lower, upper, spelled)

    def may_name(self, path: str, spelled: frozenset[Spelling | None]) -> bool:
        """Whether rows may be about a data file. Bounds say so only if they are spelled in the same way."""
        if self.paths is None or self.paths.spelled != spelled:
            return True
        lower, upper, _ = self.paths
        return lower <= path and (path <= upper or path.startswith(upper))

    def _spellings(self) -> frozenset[Spelling | None]:
        if self.entry.content is Content.EQUALITY_DELETES or self.paths is None:
            return frozenset()
        # Rows without a location are errors, which no filter may hide.
        has_nulls = self.entry.null_counts.get(DELETED_PATH.field_id)
        return self.paths.spelled | {None} if has_nulls else self.paths.spelled


class _Paths(NamedTuple):
    """The least and the greatest location that rows name, and how these are spelled."""

    lower: str
    upper: str
    spelled: frozenset[Spelling | None]


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
