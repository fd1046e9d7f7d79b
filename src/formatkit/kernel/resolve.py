"""Finds out which table field each column of a file is.

A file that stores any id is taken at its word. One that stores none gets its ids from the table's name mapping, or, if
the caller says so, by name or by position. Ids are never made up: a column that nothing maps keeps its negative id, and
nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.contract.fields import child_fields
from formatkit.errors import MissingFieldIdsError, SchemaResolutionError
from formatkit.kernel.names import Path, column_paths, dotted

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import MappedField, NameMapping

__all__ = ["MissingIds", "ResolvedFile", "resolve"]

MissingIds = Literal["error", "by-name", "by-position"]


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
    if not file_schema.fields or any(path[-1].field_id >= 0 for path in column_paths(file_schema)):
        renumbered = {}
    elif name_mapping is not None:
        renumbered = _match(file_schema.fields, _mapped(name_mapping.root))
    elif missing_ids == "by-name":
        renumbered = _match(file_schema.fields, _named(table_fields))
    elif missing_ids == "by-position":
        renumbered = _match(file_schema.fields, _positioned(table_fields))
    else:
        names = ", ".join(field.name for field in file_schema.fields)
        message = (
            f"{location} stores no field ids and the table has no name mapping, so nothing says which of the table's "
            f"fields its columns ({names}) are; if their names or their order agree with the table, read it with "
            'missing_ids="by-name" or missing_ids="by-position"'
        )
        raise MissingFieldIdsError(message, location=location)
    schema = Schema(*(_renumber(field, renumbered) for field in file_schema.fields)) if renumbered else file_schema
    _refuse_duplicates(schema, location)
    reasons = {renumbered.get(field_id, field_id): reason for field_id, reason in unreadable.items()}
    return ResolvedFile(schema, reasons, location)


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
    renumbered: dict[int, int] = {}
    for position, field in enumerate(fields):
        known = lookup(position, field.name)
        if known is not None:
            renumbered[field.field_id] = known.field_id
            renumbered |= _match(child_fields(field.field_type), known.children)
    return renumbered


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
