"""Finds the delete files that apply to a data file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from formatkit.contract.metadata_columns import DELETED_PATH
from formatkit.errors import InvalidTableError
from formatkit.forks import cached
from formatkit.scan.deletes.key_bounds import KeyRange, key_ranges, may_meet
from formatkit.scan.deletes.keys import KeySchemas
from formatkit.scan.deletes.locations import Locations, Spelling, bare_path, spelling
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
        locations: Compares the locations of data files.
    """

    def __init__(
        self,
        entries: Iterable[ManifestEntry],
        keys: KeySchemas,
        unpartitioned: Collection[int] = (),
        constants: Callable[[ManifestEntry], Mapping[int, Any]] = lambda _: {},
        locations: Locations | None = None,
    ) -> None:
        self._locations = locations or Locations()
        # By bare path, so that spellings which are not equal are noticed.
        self._vectors: dict[str, list[_Delete]] = defaultdict(list)
        self._referring: dict[str, list[_Delete]] = defaultdict(list)
        self._bounded: dict[str, list[_Delete]] = defaultdict(list)
        self._positions: dict[Scope, list[_Delete]] = defaultdict(list)
        self._equality: dict[Scope, list[_Delete]] = defaultdict(list)
        self._key_columns: dict[int, Any] = {}
        self._mismatches: list[tuple[_Delete, str]] = []
        for entry in sorted(entries, key=lambda each: each.sequence_number):
            scope = partition_key(entry)
            if entry.content is Content.EQUALITY_DELETES and entry.spec_id in unpartitioned:
                scope = EVERYWHERE
            self._add(_Delete(entry, scope, keys, constants, self._locations))
        self._names_files = bool(self._vectors or self._referring or self._bounded)
        self._is_empty = not (self._names_files or self._positions or self._equality)
        self._lengths = sorted({len(path) for path in self._bounded})

    def _add(self, delete: _Delete) -> None:
        entry = delete.entry
        if entry.content is Content.EQUALITY_DELETES:
            self._equality[delete.scope].append(delete)
            self._key_columns |= delete.key_columns
        elif entry.file_format == PUFFIN:
            self._vectors[bare_path(self._locations.canonical(_reference(entry)))].append(delete)
        elif delete.named is not None:
            by_path = self._bounded if entry.referenced_data_file is None else self._referring
            by_path[bare_path(delete.named)].append(delete)
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
        bare = bare_path(path) if self._names_files else ""
        found = self._vector(data, path, bare, scope) or self._position_deletes(data, path, bare, scope)
        return tuple(each.file for each in (*found, *self._equality_deletes(data, scope)))

    def _vector(self, data: ManifestEntry, path: str, bare: str, scope: Scope) -> list[_Delete]:
        vectors = list(self._naming(path, data, self._vectors.get(bare, ())))
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

    def _position_deletes(self, data: ManifestEntry, path: str, bare: str, scope: Scope) -> list[_Delete]:
        named = list(self._naming(path, data, self._referring.get(bare, ())))
        candidates = list(self._positions.get(scope, ()))
        for length in self._lengths:
            if length > len(bare):
                break
            found = self._bounded.get(bare[:length], ())
            if length == len(bare):
                named += self._naming(path, data, found)
            else:
                # A bound may be the beginning of a location only, if it was cut.
                candidates += found
        for each in named:
            _check_partition(each, data, scope)
        spelled = frozenset({spelling(path)})
        return [
            each
            for each in (*named, *candidates)
            if each.entry.sequence_number >= data.sequence_number
            and each.scope == scope
            and each.may_name(path, spelled)
        ]

    def _naming(self, path: str, data: ManifestEntry, found: Iterable[_Delete]) -> Iterator[_Delete]:
        """Those of the delete files with a bare path that name just this data file; others are kept in mind."""
        for each in found:
            if each.named == path:
                yield each
            elif each.entry.sequence_number >= data.sequence_number:
                self._mismatches.append((each, data.location))

    def check_spellings(self, live: Callable[[], Iterable[ManifestEntry]]) -> None:
        """Raise an error if a delete names no data file, but the path of one that it was compared with.

        Deletes of files that are not live any more may stay in a table.

        Args:
            live: Gives all data files of the snapshot. It is called only if there is a doubt.

        Raises:
            InvalidTableError: Deletes would not apply because of a spelling.
        """
        if not self._mismatches or self._locations.ignores_mismatches:
            return
        known = {self._locations.canonical(each.location) for each in live()}
        for delete, location in self._mismatches:
            if delete.named is not None and delete.named not in known:
                raise self._locations.mismatch(delete.entry.location, delete.named, location)

    def _equality_deletes(self, data: ManifestEntry, scope: Scope) -> list[_Delete]:
        candidates: list[_Delete] = []
        for deletes in (self._equality.get(scope), self._equality.get(EVERYWHERE) if scope != EVERYWHERE else None):
            if deletes and deletes[-1].entry.sequence_number > data.sequence_number:
                start = bisect_right(deletes, data.sequence_number, key=lambda each: each.entry.sequence_number)
                candidates += deletes[start:]
        if not candidates:
            return []
        ranges = key_ranges(data, self._key_columns.values())
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
    ) -> None:
        self.entry = entry
        self._locations = locations
        self.scope = scope
        self._keys = keys
        self._constants = constants

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
            spellings=self._spellings,
            has_key=entry.key_metadata is not None,
        )

    @cached
    def key_columns(self) -> dict[int, Any]:
        ids = _ids(self.entry)
        schema = self._keys.of(ids)
        return {id_: schema.find_field(id_) for id_ in ids}

    @cached
    def key_ranges(self) -> dict[int, KeyRange]:
        return key_ranges(self.entry, self.key_columns.values())

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
            return None
        if lower is None or upper is None:
            return None
        lower, upper = self._locations.canonical(lower), self._locations.canonical(upper)
        return (lower, upper) if spelling(lower) is not None and spelling(upper) is not None else None

    @cached
    def named(self) -> str | None:
        """The location that all of the deletes are about, or the beginning of it, if that is known."""
        if self.entry.referenced_data_file is not None:
            return self._locations.canonical(self.entry.referenced_data_file)
        return self.paths[0] if self.paths is not None and self.paths[0] == self.paths[1] else None

    @cached
    def _spellings(self) -> frozenset[Spelling | None]:
        if self.entry.content is Content.EQUALITY_DELETES or self.paths is None:
            return frozenset()
        # Rows without a location are errors, which nobody may filter out.
        nulls = [None] if self.entry.null_counts.get(DELETED_PATH.field_id) else []
        return frozenset([*map(spelling, self.paths), *nulls])

    def may_name(self, path: str, spelled: frozenset[Spelling | None]) -> bool:
        """Whether rows may be about a data file. Bounds say so only if they are spelled in the same way."""
        if self.entry.referenced_data_file is not None or self.paths is None or self._spellings != spelled:
            return True
        lower, upper = self.paths
        return lower <= path and (path <= upper or path.startswith(upper))


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
