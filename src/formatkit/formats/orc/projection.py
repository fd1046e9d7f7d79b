"""The columns that are asked for, found in the file and nothing else of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField, StructType, UnknownType

from formatkit.batches.arrow.types import ArrowType, arrow_schema
from formatkit.contract.metadata_columns import POS
from formatkit.contract.variant import VariantType
from formatkit.errors import ColumnNotFoundError
from formatkit.formats.orc.schema import Column

__all__ = ["Projection", "Wanted", "project"]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A column of the file, narrowed to the part that is asked for.

    Attributes:
        column: Where it is stored.
        field: What is asked for, in the words of the request.
        arrow: The Arrow type to hand out.
        children: The same for the fields below.
        stored: Whether anything is decoded; if not, all values are null.
    """

    column: Column
    field: NestedField
    arrow: ArrowType
    children: tuple[Wanted, ...] = ()
    stored: bool = True

    @property
    def decoded(self) -> tuple[Wanted, ...]:
        return tuple(child for child in self.children if child.stored)

    def walk(self) -> Iterator[Wanted]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, kw_only=True)
class Projection:
    """What to decode, and the schema of the batches to make of it.

    Attributes:
        wanted: The columns of the batches, `_pos` excepted.
        columns: The columns outside lists and maps by the ids that the request uses for them.
        schema: The schema of the batches.
        positions: Whether the batches end with the column `_pos`.
    """

    wanted: tuple[Wanted, ...]
    columns: Mapping[int, Column]
    schema: pa.Schema
    positions: bool


def project(columns: Sequence[Column], projection: Schema) -> Projection:
    """Find the columns of `projection`, which is a part of the file's schema, by their names."""
    fields = [field for field in projection.fields if field.field_id != POS.field_id]
    schema = arrow_schema(projection)
    wanted = _wanted_fields(columns, fields, schema.types[: len(fields)])
    return Projection(
        wanted=wanted,
        columns=dict(_by_id(wanted)),
        schema=schema,
        positions=len(fields) < len(projection.fields),
    )


def _wanted_fields(
    columns: Sequence[Column], fields: Sequence[NestedField], kinds: Sequence[ArrowType]
) -> tuple[Wanted, ...]:
    named = {column.field.name: column for column in columns}
    missing = next((field.name for field in fields if field.name not in named), None)
    if missing is not None:
        raise ColumnNotFoundError(missing, named)
    return tuple(_wanted(named[field.name], field, kind) for field, kind in zip(fields, kinds, strict=True))


def _wanted(column: Column, field: NestedField, arrow: ArrowType) -> Wanted:
    if column.reason is not None or isinstance(field.field_type, UnknownType):
        return Wanted(column=column, field=field, arrow=arrow, stored=False)
    children: tuple[Wanted, ...] = ()
    match field.field_type:
        case StructType(fields=fields):
            kinds = [arrow.field(i).type for i in range(arrow.num_fields)]
            children = _wanted_fields(column.children, fields, kinds)
        case ListType(element_field=element):
            children = (_wanted(column.children[0], element, arrow.value_type),)
        case MapType(value_field=value):
            key = column.children[0]
            children = (
                _wanted(key, key.field, arrow.key_type),
                _wanted(column.children[1], value, arrow.item_type),
            )
        case VariantType():
            children = tuple(_wanted(part, part.field, pa.binary()) for part in column.children)
    return Wanted(column=column, field=field, arrow=arrow, children=children)


def _by_id(wanted: Sequence[Wanted]) -> Iterator[tuple[int, Column]]:
    for one in wanted:
        yield one.field.field_id, one.column
        if isinstance(one.field.field_type, StructType):
            yield from _by_id(one.children)
