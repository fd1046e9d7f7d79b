"""Turns the names that a caller selects into the schema of the output."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.errors import ColumnNotFoundError
from formatkit.kernel.names import ColumnNames, Path

__all__ = ["ALL_COLUMNS", "column_ids", "readable_schema", "select_columns"]

ALL_COLUMNS = "*"


def readable_schema(schema: Schema, partition: NestedField | None = None) -> Schema:
    """All columns that filters and selections may name: those of the table, then the metadata columns.

    A column of the table that has the name of a metadata column hides it.
    """
    taken = {field.name for field in schema.fields}
    extra = [*METADATA_COLUMNS.values(), *([partition] if partition is not None else [])]
    return Schema(*schema.fields, *(field for field in extra if field.name not in taken), schema_id=schema.schema_id)


def select_columns(
    readable: Schema, all_columns: Schema, names: str | Iterable[str], *, case_sensitive: bool
) -> Schema:
    """The output schema: the named columns in the order in which they are first named.

    Nested columns are named with dots; those of one struct come together, in the order of the struct. Initial defaults
    stay where they are, because files that lack a column need them.

    Args:
        readable: What may be named.
        all_columns: What ``*`` stands for.
        names: Column names; a single one may be given as it is.
        case_sensitive: Whether case matters.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    if wanted == [ALL_COLUMNS]:
        return all_columns
    known = ColumnNames(readable, case_sensitive=case_sensitive)
    chosen: dict[int, set[int]] = {}
    tops: dict[int, NestedField] = {}
    for name in wanted:
        for path in (
            [(field,) for field in all_columns.fields] if name == ALL_COLUMNS else [_path(readable, known, name)]
        ):
            tops[path[0].field_id] = path[0]
            chosen.setdefault(path[0].field_id, set()).add(path[-1].field_id)
    fields = [_prune_field(field, chosen[id_]) for id_, field in tops.items()]
    return Schema(*(field for field in fields if field is not None), schema_id=readable.schema_id)


def column_ids(schema: Schema, names: str | Iterable[str], *, case_sensitive: bool) -> frozenset[int]:
    """The ids of named columns."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        return frozenset()
    known = ColumnNames(schema, case_sensitive=case_sensitive)
    return frozenset(known.find(name)[-1].field_id for name in wanted)


def _path(readable: Schema, known: ColumnNames, name: str) -> Path:
    try:
        return known.find(name)
    except ColumnNotFoundError:
        raise ColumnNotFoundError(name, [field.name for field in readable.fields]) from None


def _prune_field(field: NestedField, chosen: set[int]) -> NestedField | None:
    """The field with the chosen parts of it; None if there are none."""
    if field.field_id in chosen:
        return field
    pruned = _prune_type(field.field_type, chosen)
    return None if pruned is None else field.model_copy(update={"field_type": pruned})


def _prune_type(type_: IcebergType, chosen: set[int]) -> IcebergType | None:
    children = [_prune_field(child, chosen) for child in child_fields(type_)]
    if not any(children):
        return None
    match type_:
        case ListType():
            element = next(filter(None, children))
            return ListType(type_.element_id, element.field_type, element_required=type_.element_required)
        case MapType():
            # A map without whole keys is no map; its values may be pruned.
            value = children[1] or type_.value_field
            return MapType(
                type_.key_id, type_.key_type, type_.value_id, value.field_type, value_required=type_.value_required
            )
        case _:
            return StructType(*filter(None, children))
