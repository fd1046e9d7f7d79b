"""From the columns that are asked for to leaves, and from decoded leaves to batches of exactly these columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UnknownType

from formatkit.batches.arrow.rechunking import is_overflow
from formatkit.batches.arrow.types import ArrowType, arrow_schema
from formatkit.contract.metadata_columns import POS
from formatkit.errors import ColumnNotFoundError, InvalidDataError
from formatkit.forks import cached
from formatkit.formats.parquet.elements import Element, Kind
from formatkit.formats.parquet.read.stored_values import Convert, conversion
from formatkit.formats.parquet.row_ranges import RowNumbers
from formatkit.formats.parquet.schema import Column
from formatkit.formats.parquet.variant_assembly import holds_variant, with_whole_variants

__all__ = ["Projection", "project"]


@dataclass(frozen=True, kw_only=True)
class Projection:
    """What to decode, and the batches to make of it.

    Attributes:
        leaves: The leaf columns to decode, by index.
        leaves_of: The same for each column of the batches, `_pos` excepted.
        elements: How each of these columns is stored, if it is a single value.
        dictionary_leaves: Those of them to decode in dictionary form.
        columns: The columns outside lists and maps by the ids that the request uses for them.
        schema: The schema of the batches.
        decoded: Whether each column of the batches comes from the decoder; the others are null.
        positions: Whether the batches end with the column `_pos`.
        conversions: What makes values of the wanted type of those columns, by number, of which pyarrow decodes others.
        variants: The types of those columns, by number, that hold variants, which may have to be put together.
    """

    leaves: list[int]
    leaves_of: tuple[tuple[int, ...], ...]
    elements: tuple[Element | None, ...]
    dictionary_leaves: list[int]
    columns: Mapping[int, Column]
    schema: pa.Schema
    decoded: tuple[bool, ...]
    positions: bool
    conversions: Mapping[int, Convert]
    variants: Mapping[int, IcebergType]

    @cached
    def _types(self) -> list[ArrowType]:
        return self.schema.types

    def without_checks(self, leaves: Collection[int]) -> Projection:
        """The same for a decoder that checks the digits of decimals in these leaves itself."""
        kept = {
            column: convert
            for column, convert in self.conversions.items()
            if (element := self.elements[column]) is None
            or element.kind is not Kind.DECIMAL
            or self.leaves_of[column][0] not in leaves
        }
        return replace(self, conversions=kept)

    def without_conversions(self) -> Projection:
        """The same for columns that `part` made."""
        return replace(self, conversions={})

    def part(self, columns: Sequence[int], arrays: Sequence[pa.Array[Any]]) -> pa.RecordBatch:
        """A batch of some decoded columns only."""
        fields = [self.schema.field(column) for column in columns]
        conformed = [self._conform(*part) for part in zip(columns, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(conformed, schema=pa.schema(fields))

    def batch(
        self, arrays: Sequence[pa.Array[Any]], rows: int, first_row: int, numbers: RowNumbers | None = None
    ) -> pa.RecordBatch:
        """A batch of decoded columns.

        Its rows have the ordinals from `first_row` on, or `numbers` counted from there.
        """
        decoded = iter(arrays)
        columns = [
            self._conform(number, next(decoded)) if is_decoded else pa.nulls(rows, self.schema.field(number).type)
            for number, is_decoded in enumerate(self.decoded)
        ]
        if self.positions:
            ordinals = np.arange(first_row, first_row + rows) if numbers is None else first_row + numbers
            columns.append(pa.array(ordinals))
        if not columns:
            # Only a batch that once had a column remembers how many rows it has.
            return pa.record_batch([pa.nulls(rows)], names=[""]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _conform(self, column: int, array: pa.Array[Any]) -> pa.Array[Any]:
        convert = self.conversions.get(column)
        if convert is not None:
            array = convert(array)
        if array.type == self._types[column]:
            return array
        field = self.schema.field(column)
        if column in self.variants:
            array = with_whole_variants(array, self.variants[column])
        try:
            return array if array.type == field.type else array.cast(field.type)
        except pa.ArrowInvalid as error:
            if is_overflow(error):
                raise
            message = f"column {field.name!r} holds a value that {field.type} cannot hold: {error}"
            raise InvalidDataError(message) from error


def project(columns: Sequence[Column], projection: Schema, dictionary_ids: frozenset[int]) -> Projection:
    """Find the columns of `projection`, which is a part of the file's schema, by their names."""
    positions = any(field.field_id == POS.field_id for field in projection.fields)
    fields = [field for field in projection.fields if field.field_id != POS.field_id]
    pairs = list(_pairs(columns, fields))
    leaves = [_leaves(column, field) for column, field in pairs]
    dictionary = [
        index
        for index, (column, field) in enumerate(pairs)
        if field.field_id in dictionary_ids and column.element is not None and leaves[index]
    ]
    found = ((number, conversion(column, field, field.name)) for number, (column, field) in enumerate(pairs))
    schema = arrow_schema(projection)
    for index in dictionary:
        schema = schema.set(index, schema.field(index).with_type(pa.dictionary(pa.int32(), schema.field(index).type)))
    return Projection(
        leaves=[leaf for group in leaves for leaf in group],
        leaves_of=tuple(map(tuple, leaves)),
        elements=tuple(column.element for column, _ in pairs),
        dictionary_leaves=[leaves[index][0] for index in dictionary],
        columns=dict(_by_id(pairs)),
        schema=schema,
        decoded=tuple(bool(group) for group in leaves),
        positions=positions,
        conversions={number: convert for number, convert in found if convert is not None},
        variants={number: field.field_type for number, field in enumerate(fields) if holds_variant(field.field_type)},
    )


def _pairs(columns: Sequence[Column], fields: Sequence[NestedField]) -> Iterator[tuple[Column, NestedField]]:
    named = {column.field.name: column for column in columns}
    for field in fields:
        if field.name not in named:
            raise ColumnNotFoundError(field.name, named)
        yield named[field.name], field


def _by_id(pairs: Sequence[tuple[Column, NestedField]]) -> Iterator[tuple[int, Column]]:
    for column, field in pairs:
        yield field.field_id, column
        if isinstance(field.field_type, StructType) and column.reason is None:
            yield from _by_id(list(_pairs(column.children, field.field_type.fields)))


def _leaves(column: Column, field: NestedField) -> list[int]:
    """The leaves to decode for a field, in the file's order; none if the column cannot be read."""
    if column.reason is not None:
        return []
    match field.field_type:
        case StructType(fields=fields):
            leaves = [leaf for child in _pairs(column.children, fields) for leaf in _leaves(*child)]
            return leaves or _cheapest(column)
        case ListType(element_field=element):
            return _leaves(column.children[0], element)
        case MapType(value_field=value):
            key = column.children[0]
            return [*_leaves(key, key.field), *_leaves(column.children[1], value)]
        case UnknownType() if column.element is None:
            return []
        case _:
            return list(column.leaves)


def _cheapest(column: Column) -> list[int]:
    """One leaf of a struct, decoded only to know which structs are null."""
    readable = next(child for child in column.children if child.reason is None)
    return [min(_leaves(readable, readable.field))]
