"""The two rows that a clause sees, `source` and `target`, as two struct columns of one batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

__all__ = ["SOURCE", "TARGET", "Sides", "side_by_side"]

SOURCE = "source"
TARGET = "target"


class Sides:
    """What rows of the source and of the table look like; the ids of their columns may be the same.

    Attributes:
        both: Of batches that have both rows.
        source_only: Of batches that have the source's row.
        target_only: Of batches that have the table's row.
    """

    def __init__(self, source: Schema, target: Schema) -> None:
        self.source = source
        self.target = target
        ids = count(max((*target.field_ids, 0)) + 1)
        rows = {
            SOURCE: StructType(*(_renumbered(field, ids) for field in source.fields)),
            TARGET: StructType(*target.fields),
        }
        columns = [NestedField(next(ids), name, row, required=True) for name, row in rows.items()]
        self.both = Schema(*columns)
        self.source_only = Schema(columns[0])
        self.target_only = Schema(columns[1])


def side_by_side(**rows: pa.RecordBatch) -> pa.RecordBatch:
    """One batch of batches that have the same number of rows, each as a struct."""
    structs = [pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)) for batch in rows.values()]
    return pa.RecordBatch.from_arrays(structs, list(rows))


def _renumbered(field: NestedField, ids: Iterator[int]) -> NestedField:
    return NestedField(next(ids), field.name, _renumbered_type(field.field_type, ids), required=field.required)


def _renumbered_type(kind: IcebergType, ids: Iterator[int]) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*(_renumbered(field, ids) for field in kind.fields))
        case ListType():
            element = _renumbered(kind.element_field, ids)
            return ListType(element.field_id, element.field_type, element.required)
        case MapType():
            key, value = _renumbered(kind.key_field, ids), _renumbered(kind.value_field, ids)
            return MapType(key.field_id, key.field_type, value.field_id, value.field_type, value.required)
    return kind
