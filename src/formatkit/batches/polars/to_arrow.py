"""Frames as Arrow batches, for encoders that take nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.batches.arrow.forms import build_list, build_struct, list_parts
from formatkit.batches.arrow.types import arrow_field
from formatkit.contract.fields import child_fields

__all__ = ["arrow_batch"]


def arrow_batch(schema: Schema, frame: pl.DataFrame) -> pa.RecordBatch:
    """A canonical frame as a batch in a form that `ArrowBatch` accepts. Most values are not copied."""
    columns = [
        _with_maps(field.field_type, column.to_arrow())
        for field, column in zip(schema.fields, frame.get_columns(), strict=True)
    ]
    if not columns:
        return pa.record_batch([pa.nulls(frame.height)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(columns, names=[field.name for field in schema.fields])


def _with_maps(kind: IcebergType, column: Any) -> Any:
    """The column with maps where Polars has lists of entries."""
    if not _holds_map(kind):
        return column
    if isinstance(kind, StructType):
        return _struct(kind.fields, column)
    parts = list_parts(column)
    if isinstance(kind, ListType):
        elements = _with_maps(kind.element_type, parts.values)
        return build_list(pa.list_(elements.type), parts, elements)
    entries = _struct(child_fields(kind), parts.values)
    return build_list(pa.map_(*entries.type), parts, entries)


def _struct(fields: Sequence[NestedField], column: Any) -> Any:
    children = [_with_maps(field.field_type, column.field(i)) for i, field in enumerate(fields)]
    # The keys of a map are required for Arrow too, and a type must say of its children what they say themselves.
    named = [arrow_field(field).with_type(child.type) for field, child in zip(fields, children, strict=True)]
    return build_struct(pa.struct(named), children, column)


def _holds_map(kind: IcebergType) -> bool:
    return isinstance(kind, MapType) or any(_holds_map(child.field_type) for child in child_fields(kind))
