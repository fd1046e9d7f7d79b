"""Manifest metrics of plain rows, by Iceberg's rules with bounds that are not tight for long values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, PrimitiveType, StructType

from formatkit.contract.variant import VariantType
from formatkit.tck.naive import Row

__all__ = ["manifest_metrics"]

_BOUND_LENGTH = 16


def manifest_metrics(schema: Schema, rows: Sequence[Row]) -> dict[str, dict[int, Any]]:
    """The maps of a `DataFile`, by leaf field id. Leaves inside lists and maps have none."""
    metrics: dict[str, dict[int, Any]] = {
        "value_counts": {},
        "null_value_counts": {},
        "nan_value_counts": {},
        "lower_bounds": {},
        "upper_bounds": {},
    }
    for field_id, leaf_type, values in _leaves(schema.as_struct(), rows):
        present = [value for value in values if value is not None]
        ordinary = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
        metrics["value_counts"][field_id] = len(values)
        metrics["null_value_counts"][field_id] = len(values) - len(present)
        if isinstance(leaf_type, FloatType | DoubleType):
            metrics["nan_value_counts"][field_id] = len(present) - len(ordinary)
        if ordinary and not isinstance(leaf_type, VariantType):
            lower, upper = _bounds(ordinary)
            metrics["lower_bounds"][field_id] = to_bytes(leaf_type, lower)
            if upper is not None:
                metrics["upper_bounds"][field_id] = to_bytes(leaf_type, upper)
    return metrics


def _bounds(values: list[Any]) -> tuple[Any, Any]:
    lower, upper = min(values), max(values)
    if isinstance(lower, float):
        return (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
    if isinstance(lower, str | bytes):
        return lower[:_BOUND_LENGTH], (upper if len(upper) <= _BOUND_LENGTH else None)
    return lower, upper


def _leaves(struct: StructType, rows: Sequence[Row | None]) -> Iterator[tuple[int, PrimitiveType, list[Any]]]:
    for field in struct.fields:
        values = [None if row is None else row[field.field_id] for row in rows]
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type, values)
        elif isinstance(field.field_type, PrimitiveType):
            yield field.field_id, field.field_type, values
