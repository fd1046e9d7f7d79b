"""Finds out which table field each column of a file is.

A file that stores any id is taken at its word. One that stores none gets its ids from the table's name mapping, or, if
the caller says so, by name or by position. Ids are never made up: a column that nothing maps keeps its negative id, and
nobody asks for it. Ids that Iceberg reserves for columns which no file stores are those of another system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, LongType, MapType, NestedField, StructType

from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import DELETED, FILE, LAST_UPDATED, PARTITION_ID, POS, ROW_ID, SPEC_ID
from formatkit.errors import MissingFieldIdsError, SchemaResolutionError
from formatkit.kernel.names import Path, column_paths, dotted

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField, NameMapping

__all__ = ["MissingIds", "ResolvedFile", "foreign_ids", "renumbered", "resolve"]

MissingIds = Literal["error", "by-name", "by-position"]

_NEVER_STORED = {FILE.field_id, POS.field_id, DELETED.field_id, SPEC_ID.field_id, PARTITION_ID}
_LINEAGE = {ROW_ID.field_id: ROW_ID.name, LAST_UPDATED.field_id: LAST_UPDATED.name}


@dataclass(frozen=True)
class ResolvedFile:
    """A file's own schema with the table's ids.

    Attributes:
        schema: The file's names, types and order. Columns that are no fields of the table have negative ids.
        unreadable: Why a column cannot be read, by its id in `schema`.
        location: Where the file is.
    """

    schema: Schema
    unreadable: Mapping[int, str]
    location: str


def resolve(
    file_schema: Schema,
    table_fields: Iterable[NestedField],
    *,
    location: str,
    unreadable: Mapping[int, str],
    name_mapping: NameMapping | None = None,
    missing_ids: MissingIds = "error",
) -> ResolvedFile:
    """Give the columns of a file the ids of the table.

    Raises:
        MissingFieldIdsError: The file stores no ids and nothing says what its columns are.
        SchemaResolutionError: Two columns of the file claim the same id.
    """
    if foreign := foreign_ids(file_schema):
        file_schema = renumbered(file_schema, foreign)
        unreadable = {foreign.get(field_id, field_id): reason for field_id, reason in unreadable.items()}
    if not file_schema.fields or any(path[-1].field_id >= 0 for path in column_paths(file_schema)):
        ids = {}
    elif name_mapping is not None:
        ids = _match(file_schema.fields, _mapped(name_mapping.root))
    elif missing_ids == "by-name":
        ids = _match(file_schema.fields, _named(table_fields))
    elif missing_ids == "by-position":
        ids = _match(file_schema.fields, _positioned(table_fields))
    else:
        names = ", ".join(field.name for field in file_schema.fields)
        message = (
            f"{location} stores no field ids, or one of them twice, and the table has no name mapping, so nothing "
            f"says which of the table's fields its columns ({names}) are; if their names or their order agree with the "
            'table, read it with missing_ids="by-name" or missing_ids="by-position"'
        )
        raise MissingFieldIdsError(message, location=location)
    schema = renumbered(file_schema, ids) if ids else file_schema
    _refuse_duplicates(schema, location)
    reasons = {ids.get(field_id, field_id): reason for field_id, reason in unreadable.items()}
    return ResolvedFile(schema, reasons, location)


def foreign_ids(file_schema: Schema) -> dict[int, int]:
    """Negative ids for columns whose own ids mean something else in Iceberg.

    Row lineage is stored at the top level of a file and is long. No file stores the other metadata columns.
    """
    paths = list(column_paths(file_schema))
    if all(path[-1].field_id < LAST_UPDATED.field_id for path in paths):
        return {}
    foreign = [path[-1].field_id for path in paths if _is_foreign(path)]
    first = min(0, *(path[-1].field_id for path in paths))
    return {field_id: first - number for number, field_id in enumerate(foreign, 1)}


def _is_foreign(path: Path) -> bool:
    field = path[-1]
    if field.field_id not in _LINEAGE:
        return field.field_id in _NEVER_STORED
    is_lineage = isinstance(field.field_type, LongType) or field.name == _LINEAGE[field.field_id]
    return len(path) > 1 or not is_lineage


def renumbered(schema: Schema, ids: Mapping[int, int]) -> Schema:
    """The schema with other ids for some of its fields."""
    return Schema(*(_renumber(field, ids) for field in schema.fields))


def _refuse_duplicates(schema: Schema, location: str) -> None:
    owners: dict[int, Path] = {}
    for path in column_paths(schema):
        other = owners.setdefault(path[-1].field_id, path)
        if other is not path:
            message = (
                f"columns {dotted(other)!r} and {dotted(path)!r} of {location} are both field {path[-1].field_id} "
                "of the table"
            )
            raise SchemaResolutionError(message, location=location)


@dataclass(frozen=True)
class _Known:
    """What a column at one place of the file is: its id, and what its children are."""

    field_id: int
    children: _Lookup


_Lookup = Callable[[int, str], _Known | None]
"""From the position and the name of a column among its siblings."""


def _mapped(fields: Iterable[MappedField]) -> _Lookup:
    known = {
        name: _Known(field.field_id, _mapped(field.fields))
        for field in fields
        if field.field_id is not None
        for name in field.names
    }
    return lambda position, name: known.get(name)


def _named(fields: Iterable[NestedField]) -> _Lookup:
    known = {field.name: _Known(field.field_id, _named(child_fields(field.field_type))) for field in fields}
    return lambda position, name: known.get(name)


def _positioned(fields: Iterable[NestedField]) -> _Lookup:
    known = [_Known(field.field_id, _positioned(child_fields(field.field_type))) for field in fields]
    return lambda position, name: known[position] if position < len(known) else None


def _match(fields: Iterable[NestedField], lookup: _Lookup) -> dict[int, int]:
    """The table's id for each of the file's provisional ids that is known."""
    ids: dict[int, int] = {}
    for position, field in enumerate(fields):
        known = lookup(position, field.name)
        if known is not None:
            ids[field.field_id] = known.field_id
            ids |= _match(child_fields(field.field_type), known.children)
    return ids


def _renumber(field: NestedField, ids: Mapping[int, int]) -> NestedField:
    return field.model_copy(
        update={
            "field_id": ids.get(field.field_id, field.field_id),
            "field_type": _renumber_type(field.field_type, ids),
        }
    )


def _renumber_type(type_: IcebergType, ids: Mapping[int, int]) -> IcebergType:
    if isinstance(type_, StructType):
        return StructType(*(_renumber(field, ids) for field in type_.fields))
    if isinstance(type_, ListType):
        return ListType(
            element_id=ids.get(type_.element_id, type_.element_id),
            element_type=_renumber_type(type_.element_type, ids),
            element_required=type_.element_required,
        )
    if isinstance(type_, MapType):
        return MapType(
            key_id=ids.get(type_.key_id, type_.key_id),
            key_type=_renumber_type(type_.key_type, ids),
            value_id=ids.get(type_.value_id, type_.value_id),
            value_type=_renumber_type(type_.value_type, ids),
            value_required=type_.value_required,
        )
    return type_
