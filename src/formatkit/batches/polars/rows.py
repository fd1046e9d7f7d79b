"""Batches as rows of Python values, for checks and for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from formatkit.batches.polars.evolve import compile_evolution
from formatkit.batches.polars.types import NANOS_PER_MICRO
from formatkit.contract.python_values import python_value
from formatkit.contract.variant import Variant, VariantType

__all__ = ["rows"]


def rows(schema: Schema, batch: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples of Python's own values; see `python_value` for where there are none."""
    batch = compile_evolution(schema, schema, {})(batch)
    if not schema.fields:
        return iter([()] * batch.height)
    columns = zip(schema.fields, batch.get_columns(), strict=True)
    return zip(*(_values(field.field_type, column) for field, column in columns), strict=True)


def _values(kind: IcebergType, column: pl.Series) -> list[Any]:
    match kind:
        case StructType():
            children = [_values(field.field_type, column.struct[i]) for i, field in enumerate(kind.fields)]
            structs = list(zip(*children, strict=True)) if children else [()] * len(column)
            return _with_nulls(structs, column)
        case ListType():
            return _lists(column, _values(kind.element_type, _elements(column)))
        case MapType():
            entries = _elements(column).struct
            keys, values = _values(kind.key_type, entries[0]), _values(kind.value_type, entries[1])
            return _lists(column, list(zip(keys, values, strict=True)))
        case VariantType():
            parts = zip(column.struct[0].to_list(), column.struct[1].to_list(), strict=True)
            return _with_nulls([Variant(metadata, value) for metadata, value in parts], column)
    if isinstance(column.dtype, pl.Time):
        column = column.to_physical() // NANOS_PER_MICRO
    elif column.dtype.is_temporal():
        column = column.to_physical()
    return [None if value is None else python_value(kind, value) for value in column.to_list()]


def _elements(column: pl.Series) -> pl.Series:
    """The elements of all lists, end to end."""
    return column.explode(empty_as_null=False, keep_nulls=False)


def _lists(column: pl.Series, elements: list[Any]) -> list[Any]:
    found: list[Any] = []
    start = 0
    for length in column.list.len().to_list():
        if length is None:
            found.append(None)
        else:
            found.append(elements[start : start + length])
            start += length
    return found


def _with_nulls(values: list[Any], column: pl.Series) -> list[Any]:
    return [value if valid else None for value, valid in zip(values, column.is_not_null().to_list(), strict=True)]
