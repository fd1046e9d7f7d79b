"""In which Arrow types the encoder takes what a file stores, and of which types of the file its own types are parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimeType,
    UUIDType,
)

from formatkit.batches.arrow.forms import build_list, build_struct, list_parts, without_offsets
from formatkit.batches.arrow.types import ArrowType, Column, arrow_schema
from formatkit.contract.fields import child_fields
from formatkit.contract.variant import VariantType
from formatkit.formats.orc.attributes import attributes_of
from formatkit.formats.orc.timestamp_halves import halves_of, halves_type

__all__ = ["EncoderForm", "EncoderType", "Part"]


class Part(Enum):
    """What of a type of the file the encoder's type holds."""

    WHOLE = "whole"
    NULLS = "nulls of a timestamp"
    SECONDS = "seconds of a timestamp"
    REST = "nanoseconds of a timestamp"


@dataclass(frozen=True)
class EncoderType:
    """A type of the encoder: the number of the file's type, and what of it this one holds."""

    number: int
    part: Part


class EncoderForm:
    """The form of all columns of a file.

    Args:
        schema: What the file stores.
        halved: The ids of the timestamps that are encoded in two halves.

    Attributes:
        halved: The same.
        types: The encoder's types, depth first.
    """

    def __init__(self, schema: Schema, halved: frozenset[int]) -> None:
        self.halved = halved
        self._fields = schema.fields
        fields = zip(arrow_schema(schema), schema.fields, strict=True)
        self._arrow = pa.schema([self._field(*pair) for pair in fields])
        parts = [Part.WHOLE, *(part for field in schema.fields for part in self._parts(field))]
        numbers = accumulate((part in (Part.WHOLE, Part.NULLS) for part in parts), initial=-1)
        next(numbers)
        self.types = tuple(map(EncoderType, numbers, parts))

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """A batch in canonical form as the encoder takes it."""
        columns = [self._column(*pair) for pair in zip(batch.columns, self._fields, strict=True)]
        return pa.Table.from_arrays(columns, schema=self._arrow)

    def bloom_filters(self, numbers: Iterable[int]) -> list[int]:
        """The encoder's types for the file's. Halves of timestamps have none: theirs would be of seconds only."""
        wanted = set(numbers)
        types = enumerate(self.types)
        return [place for place, one in types if one.number in wanted and one.part is Part.WHOLE]

    def _parts(self, field: NestedField) -> Iterator[Part]:
        if field.field_id in self.halved:
            yield from (Part.NULLS, Part.SECONDS, Part.REST)
            return
        yield Part.WHOLE
        if isinstance(field.field_type, VariantType):
            yield from (Part.WHOLE, Part.WHOLE)
        for child in child_fields(field.field_type):
            yield from self._parts(child)

    def _field(self, arrow: pa.Field[Any], field: NestedField) -> pa.Field[Any]:
        kind = halves_type(arrow.type) if field.field_id in self.halved else self._type(arrow.type, field.field_type)
        return pa.field(arrow.name, kind, arrow.nullable, metadata=dict(attributes_of(field)))

    def _type(self, arrow: ArrowType, kind: IcebergType) -> ArrowType:
        match kind:
            case StructType():
                return pa.struct([self._field(arrow.field(i), field) for i, field in enumerate(kind.fields)])
            case ListType():
                return pa.list_(self._field(arrow.value_field, kind.element_field))
            case MapType():
                key = self._field(arrow.key_field, kind.key_field)
                return pa.map_(key, self._field(arrow.item_field, kind.value_field))
            case TimeType():
                return pa.int64()
            case UUIDType():
                return pa.binary(16)
        return arrow

    def _column(self, column: Column, field: NestedField) -> Column:
        # It takes nulls from the wrong rows where a nested column begins in the midst of a buffer.
        return without_offsets(self._converted(column, field))

    def _converted(self, column: Column, field: NestedField) -> Column:
        """It knows neither times nor extension types, nor slices of structs."""
        if field.field_id in self.halved:
            return halves_of(column)
        match field.field_type:
            case TimeType():
                return column.view(pa.int64())
            case UUIDType():
                return column.storage
            case StructType(fields=fields):
                return self._struct(column, fields)
            case ListType(element_field=element):
                parts = list_parts(column)
                values = self._converted(parts.values, element)
                if values is parts.values:
                    return column
                return build_list(pa.list_(column.type.value_field.with_type(values.type)), parts, values)
            case MapType() as kind:
                parts = list_parts(column)
                entries = self._struct(parts.values, child_fields(kind))
                if entries is parts.values:
                    return column
                return build_list(pa.map_(entries.type.field(0), entries.type.field(1)), parts, entries)
        return column

    def _struct(self, column: Column, fields: Sequence[NestedField]) -> Column:
        before = [column.field(i) for i in range(len(fields))]
        # What is below nulls of a struct inside a struct it stores too, unless it is null itself.
        below = column.flatten() if column.null_count else before
        after = [self._converted(*pair) for pair in zip(below, fields, strict=True)]
        if all(new is old for new, old in zip(after, before, strict=True)):
            return column
        kinds = [column.type.field(i).with_type(child.type) for i, child in enumerate(after)]
        return build_struct(pa.struct(kinds), after, column)
