"""The truth about deletes, one row at a time: what was deleted, and which rows of which files that concerns.

Data files are told by their number in the table, because nobody knows their locations before they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField, StructType

from formatkit.tck.naive import File, Row, evolve, value_of
from formatkit.tck.rows import comparable

__all__ = ["Deletes", "DeletionVector", "EqualityDeletes", "PositionDeletes", "with_deletes"]


@dataclass(frozen=True, kw_only=True)
class Deletes:
    """A file of deletes. Data files have sequence number 1 where none is given."""

    sequence_number: int = 2
    spec_id: int = 0
    partition: Row | None = None


@dataclass(frozen=True, kw_only=True)
class PositionDeletes(Deletes):
    """A position delete file.

    Attributes:
        rows: Data files, by number, or paths of files that the table does not have; each with an ordinal.
        only: The one data file that the manifest says it is for.
        spelling: How paths are written, from the path of a data file without a scheme; its location if left out.
        copies: Whether the deleted rows are stored beside their positions.
    """

    rows: Sequence[tuple[int | str, int]]
    only: int | None = None
    spelling: Callable[[str], str] | None = None
    copies: bool = False


@dataclass(frozen=True, kw_only=True)
class DeletionVector(Deletes):
    """A deletion vector.

    Attributes:
        file: The number of the data file.
        positions: The ordinals of deleted rows.
        runs: Whether they are stored in containers of runs.
        damage: What happens to the bytes, whose number stays.
        miscounted: By how much the manifest counts wrong.
        belongs_to: The data file that the Puffin file names, if not the right one.
    """

    file: int
    positions: Sequence[int]
    runs: bool = False
    damage: Callable[[bytes], bytes] | None = None
    miscounted: int = 0
    belongs_to: str | None = None


@dataclass(frozen=True, kw_only=True)
class EqualityDeletes(Deletes):
    """An equality delete file: `schema` and `rows` are what it stores, `ids` which columns count."""

    ids: tuple[int, ...]
    schema: Schema
    rows: Sequence[Row]


def with_deletes(
    files: Sequence[File], deletes: Sequence[Deletes], schemas: Sequence[Schema], specs: Sequence[PartitionSpec]
) -> list[File]:
    """The files, each with the ordinals of its deleted rows.

    Args:
        files: All data files of a table, in the order in which deletes number them.
        deletes: All its delete files.
        schemas: All schemas that it had, the current one last.
        specs: All its partition specs.
    """
    partitions = {spec.spec_id: spec for spec in specs}
    return [
        replace(file, deleted=frozenset(_deleted(number, file, deletes, schemas, partitions)))
        for number, file in enumerate(files)
    ]


def _deleted(
    number: int, file: File, deletes: Sequence[Deletes], schemas: Sequence[Schema], specs: Mapping[int, PartitionSpec]
) -> Iterator[int]:
    applying = [each for each in deletes if _applies(each, file, specs)]
    vectors = [each for each in applying if isinstance(each, DeletionVector) and each.file == number]
    for each in applying:
        match each:
            case DeletionVector() if each.file == number:
                yield from each.positions
            # A vector holds what the position delete files before it held, which are no longer looked at.
            case PositionDeletes() if not vectors and each.only in (None, number):
                yield from (position for name, position in each.rows if name == number)
            case EqualityDeletes():
                yield from _equal_rows(file, each, schemas)


def _applies(delete: Deletes, file: File, specs: Mapping[int, PartitionSpec]) -> bool:
    written = 1 if file.sequence_number is None else file.sequence_number
    if not isinstance(delete, EqualityDeletes):
        return written <= delete.sequence_number and _same_partition(delete, file, specs)
    everywhere = all(isinstance(part.transform, VoidTransform) for part in specs[delete.spec_id].fields)
    return written < delete.sequence_number and (everywhere or _same_partition(delete, file, specs))


def _same_partition(delete: Deletes, file: File, specs: Mapping[int, PartitionSpec]) -> bool:
    def values(partition: Row | None) -> list[str]:
        return comparable((partition or {}).get(part.field_id) for part in specs[file.spec_id].fields)

    return delete.spec_id == file.spec_id and values(delete.partition) == values(file.partition)


def _equal_rows(file: File, delete: EqualityDeletes, schemas: Sequence[Schema]) -> Iterator[int]:
    columns = {field_id: _column(field_id, schemas) for field_id in delete.ids}

    def keys(rows: Sequence[Row], schema: Schema, constants: Mapping[int, Any]) -> Iterator[str]:
        values = [_values(rows, schema, constants, column, field_id) for field_id, column in columns.items()]
        return map(repr, zip(*values, strict=True))

    deleted = set(keys(delete.rows, delete.schema, {}))
    yield from (at for at, key in enumerate(keys(file.rows, file.schema, file.constants)) if key in deleted)


def _values(
    rows: Sequence[Row], schema: Schema, constants: Mapping[int, Any], column: Schema, field_id: int
) -> list[Any]:
    """What the rows hold in a field that may have changed since."""
    if column.fields[0] in schema.fields and column.fields[0].field_id == field_id:
        return [row[field_id] for row in rows]
    return [value_of(evolve(row, schema, column, constants), column, field_id) for row in rows]


def _column(field_id: int, schemas: Sequence[Schema]) -> Schema:
    """The field as the table last knew it, with nothing beside it."""
    newest = next(schema for schema in reversed(schemas) if field_id in schema.field_ids)
    return Schema(*(only for column in newest.fields if (only := _only(column, field_id)) is not None))


def _only(column: NestedField, field_id: int) -> NestedField | None:
    if column.field_id == field_id or not isinstance(column.field_type, StructType):
        return column if column.field_id == field_id else None
    inside = [only for child in column.field_type.fields if (only := _only(child, field_id)) is not None]
    return column.model_copy(update={"field_type": StructType(*inside)}) if inside else None
