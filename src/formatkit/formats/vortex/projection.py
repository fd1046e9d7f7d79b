"""From the columns that are asked for to what Vortex decodes for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import vortex.expr as ve
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType, UnknownType

from formatkit.batches.arrow.types import ArrowType
from formatkit.contract.metadata_columns import POS
from formatkit.errors import ColumnNotFoundError
from formatkit.formats.vortex.schema import Columns, logical_type

__all__ = ["Decoded", "decoded_columns"]


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What a scan returns.

    Attributes:
        expression: The projection in Vortex's terms.
        arrow: The schema of the batches that Vortex makes.
        logical: The types that these columns stand for.
        schema: The columns asked for, as a part of the file's schema: structs pruned, lists and maps whole.
        stored: Whether each of these columns is decoded; the others can only be null.
    """

    expression: Any
    arrow: pa.Schema
    logical: tuple[ArrowType, ...]
    schema: Schema
    stored: tuple[bool, ...]

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of all columns, given one of those that are stored."""
        if all(self.stored) and batch.schema.types == list(self.logical):
            return batch
        columns: list[Any] = [
            column if column.type == logical else column.cast(logical)
            for column, logical in zip(batch.columns, self.logical, strict=True)
        ]
        found = iter(columns)
        columns = [next(found) if stored else pa.nulls(batch.num_rows) for stored in self.stored]
        return pa.RecordBatch.from_arrays(columns, names=[field.name for field in self.schema.fields])


def decoded_columns(columns: Columns, projection: Schema) -> Decoded:
    """Find the columns of `projection`, which is a part of the file's schema, by their names."""
    wanted = [field for field in projection.fields if field.field_id != POS.field_id]
    chosen = [(_named(columns.schema.fields, field), field) for field in wanted]
    arrow, expressions, pruned = [], {}, []
    for found, field in chosen:
        if isinstance(found.field_type, UnknownType):
            pruned.append(found)
            continue
        stored = columns.arrow.field(found.name)
        expression, part, arrow_type = _prune(ve.column(found.name), found, field, stored.type, stored.nullable)
        expressions[found.name] = expression
        arrow.append(stored.with_type(arrow_type))
        pruned.append(part)
    known = [field for field in pruned if not isinstance(field.field_type, UnknownType)]
    return Decoded(
        expression=ve.pack(expressions),
        arrow=pa.schema(arrow),
        logical=tuple(logical_type(found.type, part.field_type) for found, part in zip(arrow, known, strict=True)),
        schema=Schema(*pruned),
        stored=tuple(not isinstance(found.field_type, UnknownType) for found, _ in chosen),
    )


def _prune(
    value: Any, found: NestedField, wanted: NestedField, arrow: Any, nullable: bool
) -> tuple[Any, NestedField, Any]:
    """A value with only the wanted fields of its structs: the expression, its Iceberg field, its Arrow type."""
    if not isinstance(found.field_type, StructType) or not isinstance(wanted.field_type, StructType):
        return value, found, arrow
    pairs = [(_named(found.field_type.fields, child), child) for child in wanted.field_type.fields]
    pairs = [(stored, child) for stored, child in pairs if not isinstance(stored.field_type, UnknownType)]
    parts: dict[str, Any] = {}
    fields, arrow_fields = [], []
    for stored, child in pairs:
        arrow_child = arrow.field(stored.name)
        parts[stored.name], part, arrow_type = _prune(
            ve.get_item(stored.name, value), stored, child, arrow_child.type, nullable or arrow_child.nullable
        )
        fields.append(part)
        # Taken out of a struct, a required value is null where the struct is.
        arrow_fields.append(pa.field(stored.name, arrow_type, nullable or arrow_child.nullable))
    if len(pairs) == arrow.num_fields and all(part is stored for part, (stored, _) in zip(fields, pairs, strict=True)):
        return value, found, arrow
    expression = ve.pack(parts)
    if nullable:
        expression = ve.mask(expression, ve.is_not_null(value))
    kind = StructType(*fields)
    return expression, found.model_copy(update={"field_type": kind}), pa.struct(arrow_fields)


def _named(fields: Sequence[NestedField], wanted: NestedField) -> NestedField:
    for field in fields:
        if field.name == wanted.name:
            return field
    raise ColumnNotFoundError(wanted.name, (field.name for field in fields))
