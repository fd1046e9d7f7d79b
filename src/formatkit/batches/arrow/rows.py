"""Batches as rows of Python values, for checks and for people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from formatkit.batches.arrow.evolve import compile_evolution
from formatkit.batches.arrow.forms import ListParts, child_of, list_parts
from formatkit.batches.arrow.types import Column
from formatkit.batches.arrow.variant import variants
from formatkit.contract.python_values import python_value
from formatkit.contract.variant import VariantType

__all__ = ["rows"]


def rows(schema: Schema, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples of Python's own values, as far as `python_value` has them.

    Variants are `Variant` objects, so that a variant null is not taken for a null row.
    """
    batch = compile_evolution(schema, schema, {})(batch)
    if not schema.fields:
        return iter([()] * batch.num_rows)
    return zip(*(_values(field.field_type, batch.column(i)) for i, field in enumerate(schema.fields)), strict=True)


def _values(iceberg_type: IcebergType, column: Column) -> list[Any]:
    match iceberg_type:
        case StructType():
            children = [_values(f.field_type, child_of(column, i)) for i, f in enumerate(iceberg_type.fields)]
            structs = list(zip(*children, strict=True)) if children else [()] * len(column)
            return _with_nulls(structs, column)
        case ListType():
            parts = list_parts(column)
            return _with_nulls(_sliced(_values(iceberg_type.element_type, parts.values), parts), column)
        case MapType():
            parts = list_parts(column)
            keys = _values(iceberg_type.key_type, parts.values.field(0))
            items = _values(iceberg_type.value_type, parts.values.field(1))
            return _with_nulls(_sliced(list(zip(keys, items, strict=True)), parts), column)
        case VariantType():
            return list(variants(column))
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    elif pa.types.is_temporal(column.type):
        column = column.view(f"int{column.type.bit_width}")
    return [None if value is None else python_value(iceberg_type, value) for value in column.to_pylist()]


def _with_nulls(values: list[Any], column: Column) -> list[Any]:
    if column.null_count == 0:
        return values
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)]


def _sliced(values: list[Any], parts: ListParts) -> list[list[Any]]:
    bounds = memoryview(parts.offsets).cast("i")[: parts.length + 1] if parts.length else ()
    return [values[start:end] for start, end in pairwise(bounds)]
