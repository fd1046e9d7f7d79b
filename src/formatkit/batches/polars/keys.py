"""Finds rows among key rows, and gives columns as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.batches.polars.columns import place_of
from formatkit.batches.polars.evolve import compile_evolution
from formatkit.batches.polars.forms import Check, Place, as_flat, require
from formatkit.batches.polars.layouts import PerLayout
from formatkit.batches.polars.rows import rows
from formatkit.batches.polars.types import polars_schema
from formatkit.contract.batch import Longs
from formatkit.contract.fields import field_path, key_paths
from formatkit.errors import InvalidDataError

__all__ = ["compile_distinct", "compile_location", "compile_longs"]

_ABSENT = -1
_ORDINAL = "ordinal"


def compile_longs(schema: Schema, field_id: int) -> Callable[[pl.DataFrame], Longs]:
    """A function that gives a long column as an array."""
    path, field = field_path(schema, field_id)
    layouts = PerLayout[tuple[pl.Expr, list[Check]]](lambda found: as_flat(place_of(path, field, found), pl.Int64()))

    def longs(batch: pl.DataFrame) -> Longs:
        numbers, checks = layouts.of(batch)
        require(batch, checks)
        column = batch.select(numbers).to_series()
        if column.null_count():
            message = f"column {field.name!r} holds {column.null_count()} nulls where numbers are needed"
            raise InvalidDataError(message)
        return np.asarray(column.to_numpy())

    return longs


def compile_distinct(schema: Schema, field_id: int) -> Callable[[pl.DataFrame], tuple[Sequence[Any], Longs]]:
    """A function that gives the distinct values of a column, and for each row which of them it has."""
    path, field = field_path(schema, field_id)
    alone = Schema(field)
    canonical = compile_evolution(alone, alone, {})
    layouts = PerLayout[Place](lambda found: place_of(path, field, found))

    def distinct(batch: pl.DataFrame) -> tuple[Sequence[Any], Longs]:
        frame = canonical(batch.select(layouts.of(batch).value.alias(field.name)))
        values = frame.unique(maintain_order=True)
        return [row[0] for row in rows(alone, values)], compile_location(alone, [values])(frame)

    return distinct


def compile_location(schema: Schema, keys: Sequence[pl.DataFrame]) -> Callable[[pl.DataFrame], Longs]:
    """A function that gives for each row the ordinal of the first key row that equals it, or -1."""
    leaves = key_paths(schema)
    found = polars_schema(schema)
    canonical = compile_evolution(schema, schema, {})
    expressions = [each for path, field in leaves for each in _comparable(place_of(path, field, found), field)]
    columns = [each.alias(str(number)) for number, each in enumerate(expressions)]
    names = [str(number) for number in range(len(columns))]
    tables = [canonical(batch).select(columns) for batch in keys]
    if not sum(batch.height for batch in keys):
        return lambda batch: np.full(batch.height, _ABSENT, np.int64)
    if not names:
        return lambda batch: np.zeros(batch.height, np.int64)
    known = pl.concat(tables).with_row_index(_ORDINAL).unique(names, keep="first")

    def locate(batch: pl.DataFrame) -> Longs:
        rows = canonical(batch).select(columns)
        joined = rows.join(known, on=names, how="left", nulls_equal=True, maintain_order="left")
        return joined.get_column(_ORDINAL).cast(pl.Int64).fill_null(_ABSENT).to_numpy()

    return locate


def _comparable(place: Place, field: NestedField) -> list[pl.Expr]:
    """Columns that are equal exactly if the values of a leaf are the same."""
    if isinstance(place.dtype, pl.Null):
        return []
    if place.dtype.is_float():
        # To a join, both zeros are one.
        return [place.value, (place.value == 0) & ((1 / place.value) < 0)]
    return [place.value]
