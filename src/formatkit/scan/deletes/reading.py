"""Reads delete files: positions by data file, key rows, and deletion vectors."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundIn
from pyiceberg.schema import Schema

from formatkit.contract.batch import DataBatch, Longs
from formatkit.contract.fields import key_paths
from formatkit.contract.format import FormatPlugin
from formatkit.contract.metadata_columns import DELETED_PATH, DELETED_POSITION, POSITION_DELETES
from formatkit.contract.options import OpenOptions
from formatkit.contract.storage import ByteSource
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.forks import cached
from formatkit.kernel import FileRequest, read
from formatkit.kernel.intervals import Bracket
from formatkit.kernel.predicates import ColumnReference, all_of, conjuncts, leaves, member
from formatkit.puffin import read_deletion_vector, read_footer
from formatkit.scan.deletes.locations import Locations, bare_path, spelling
from formatkit.scan.opening import open_file, open_whole
from formatkit.scan.tasks import DeleteFile, FileTask

__all__ = ["DeleteReader"]

B = TypeVar("B")

_BATCH_ROWS = 131_072
_MANY_ROWS = 10_000
_FEW_FILES = 20


@dataclass(frozen=True, kw_only=True)
class DeleteReader(Generic[B]):
    """Reads the delete files of a scan.

    Attributes:
        plugins: By file format.
        operations: On the batches.
        open_source: From a delete file to its bytes.
        request: What is asked of the whole scan: columns of delete files are told by the same rules.
        counters: Which is counted: files and rows.
    """

    plugins: Mapping[str, FormatPlugin[B]]
    operations: DataBatch[B]
    open_source: Callable[[FileTask | DeleteFile], ByteSource]
    request: FileRequest
    counters: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached
    def locations(self) -> Locations:
        """Compares the locations of data files."""
        return Locations(self.request.properties)

    @cached
    def _paths_of(self) -> Callable[[B], tuple[Sequence[str | None], Longs]]:
        return self.operations.distinct(POSITION_DELETES, DELETED_PATH.field_id)

    @cached
    def _positions_of(self) -> Callable[[B], Longs]:
        return self.operations.longs(POSITION_DELETES, DELETED_POSITION.field_id)

    def vector(self, delete: DeleteFile) -> Longs:
        """The positions of a deletion vector, ascending."""
        place = (delete.content_offset or 0, delete.content_size or 0)
        vector = open_whole(
            delete, self.open_source, lambda source: read_deletion_vector(source, *place, cardinality=delete.row_count)
        )
        self._count(delete)
        return vector.positions

    def references(self, delete: DeleteFile) -> dict[int, str | None]:
        """What a file says of its deletion vectors: by offset, the data file that each belongs to."""
        try:
            footer = open_whole(delete, self.open_source, read_footer)
        except UnsupportedError:
            # The vectors are not compressed, whatever was done to the description of the file.
            return {}
        return {blob.offset: blob.properties.get("referenced-data-file") for blob in footer.blobs}

    def positions(
        self, delete: DeleteFile, paths: Collection[str], known: Collection[str] = ()
    ) -> dict[str, list[Longs]]:
        """The positions that a file deletes, in any order, by the canonical locations of some data files.

        Args:
            delete: The file.
            paths: The data files.
            known: Other data files, to which deletes may apply, too.

        Raises:
            InvalidTableError: Rows name the path of a data file, but not as the table spells it.
            InvalidDataError: A row names no data file.
        """
        predicate = self._path_filter(delete, paths)
        found = self._positions(delete, paths, known, predicate)
        if not delete.spellings and predicate is not AlwaysTrue() and not any(found.values()):
            # The filter would hide rows that spell locations otherwise.
            found = self._positions(delete, paths, known, AlwaysTrue())
        return found

    def _positions(
        self, delete: DeleteFile, paths: Collection[str], known: Collection[str], predicate: BooleanExpression
    ) -> dict[str, list[Longs]]:
        found: dict[str, list[Longs]] = {path: [] for path in paths}
        bare = {} if self.locations.ignores_mismatches else {bare_path(path): path for path in paths}
        for batch in self._read(
            delete,
            schema=POSITION_DELETES,
            table_schema=POSITION_DELETES,
            predicate=predicate,
            name_mapping=None,
            # Without ids, the columns are what the spec calls them.
            missing_ids="by-name",
        ):
            names, codes = self._paths_of(batch)
            positions = self._positions_of(batch)
            for code, name in enumerate(names):
                if name is None:
                    message = f"{delete.location}: a row of position deletes has no file_path, so that it names no row"
                    raise InvalidDataError(message, location=delete.location)
                path = self.locations.canonical(name)
                if path in found:
                    found[path].append(positions[codes == code] if len(names) > 1 else positions)
                elif path not in known and (same := bare.get(bare_path(path))) is not None:
                    raise self.locations.mismatch(delete.location, name, same)
        return found

    def _path_filter(self, delete: DeleteFile, paths: Collection[str]) -> BooleanExpression:
        """Keeps a reader from decoding what is about other data files, where few of many are wanted."""
        if len(paths) > _FEW_FILES or delete.row_count < _MANY_ROWS:
            return AlwaysTrue()
        if delete.spellings and any(delete.spellings != {spelling(path)} for path in paths):
            # Rows that spell locations otherwise have to be seen.
            return AlwaysTrue()
        names = (Bracket.at(each) for path in paths for each in self.locations.spellings(path))
        return member(
            BoundIn, ColumnReference((DELETED_PATH,), POSITION_DELETES.accessor_for_field(DELETED_PATH.field_id)), names
        )

    def keys(self, delete: DeleteFile, schema: Schema) -> list[B]:
        """The key rows of a file of equality deletes, but for those that no row can equal which the scan returns."""
        return list(
            self._read(
                delete,
                schema=schema,
                partition_constants=delete.partition_constants,
                predicate=_part_about(schema, self.request.predicate),
            )
        )

    def _read(self, delete: DeleteFile, **asked: Any) -> Iterator[B]:
        request = replace(
            self.request,
            **{
                "location": delete.location,
                "predicate": AlwaysTrue(),
                "batch_rows": _BATCH_ROWS,
                "dictionary_columns": frozenset(),
                **asked,
            },
        )
        reader, options = self.plugins[delete.file_format].reader(), OpenOptions(properties=request.properties)
        source, file = open_file(reader, delete, self.open_source, options)
        with closing(source), closing(file), read(file, self.operations, request) as batches:
            yield from batches
        self._count(delete)

    def _count(self, delete: DeleteFile) -> None:
        with self._lock:
            self.counters["delete_files_read"] += 1
            self.counters["delete_rows_read"] += delete.row_count


def _part_about(schema: Schema, predicate: BooleanExpression) -> BooleanExpression:
    """As much of a filter as needs no other columns. Structs are not compared, so what they are says nothing."""
    known = {field.field_id for _, field in key_paths(schema)}
    return all_of(
        part for part in conjuncts(predicate) if all(leaf.term.ref().field.field_id in known for leaf in leaves(part))
    )
