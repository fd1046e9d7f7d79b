"""Columns that are computed rather than read: constants, and constants plus the row's position."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from pyiceberg.schema import Schema

from formatkit.batches.polars.columns import place_of
from formatkit.batches.polars.constants import constant
from formatkit.batches.polars.evolve import compile_evolution
from formatkit.batches.polars.forms import Check, as_flat, require
from formatkit.batches.polars.layouts import PerLayout
from formatkit.contract.batch import InjectedColumn, Step
from formatkit.contract.fields import field_path
from formatkit.contract.values import internal_value

__all__ = ["compile_injection", "free_names"]

_LONGEST = 2**63 - 1


def compile_injection(schema: Schema, columns: Sequence[InjectedColumn]) -> Step[pl.DataFrame]:
    """A function that appends `columns` to batches of `schema`, or fills the nulls of those that are there."""
    positions = {field.field_id: position for position, field in enumerate(schema.fields)}
    appended = [_Values(schema, column) for column in columns if column.field.field_id not in positions]
    fills = [
        _filler(schema, column, positions[column.field.field_id])
        for column in columns
        if column.field.field_id in positions and column.value is not None
    ]

    def inject(batch: pl.DataFrame) -> pl.DataFrame:
        result = batch
        for fill in fills:
            result = fill(result)
        if not appended:
            return result
        added = [values.of(batch) for values in appended]
        names = free_names(result.columns, [values.name for values in appended])
        return result.with_columns(column.alias(name) for column, name in zip(added, names, strict=True))

    return inject


def free_names(taken: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The wanted names, changed where a column has them: names in batches mean nothing, but must differ in a frame."""
    names = list(taken)
    for name in wanted:
        while name in names:
            name += "#"
        names.append(name)
    return names[len(taken) :]


class _Values:
    """What a column holds where nothing is stored."""

    def __init__(self, schema: Schema, column: InjectedColumn) -> None:
        self.name = column.field.name
        kind = column.field.field_type
        if column.plus is None or column.value is None:
            same = constant(kind, column.value)
            self._layouts = PerLayout[tuple[pl.Expr, list[Check]]](lambda _: (same, []))
            return
        path, field = field_path(schema, column.plus)
        start: int = internal_value(kind, column.value)

        def counted(found: pl.Schema) -> tuple[pl.Expr, list[Check]]:
            place = place_of(path, field, found)
            numbers, checks = as_flat(place, pl.Int64())
            outside = numbers > _LONGEST - start if start > 0 else numbers < -_LONGEST - 1 - start
            message = f"column {self.name!r} leaves the range of long"
            return numbers + pl.lit(start, pl.Int64), [*checks, Check(outside.any(), lambda _: message)]

        self._layouts = PerLayout(counted)

    def of(self, batch: pl.DataFrame) -> pl.Expr:
        """The values for a batch."""
        values, checks = self._layouts.of(batch)
        require(batch, checks)
        return values


def _filler(schema: Schema, column: InjectedColumn, position: int) -> Step[pl.DataFrame]:
    values = _Values(schema, column)
    field = schema.fields[position]
    canonical = compile_evolution(Schema(field), Schema(field), {})

    def fill(batch: pl.DataFrame) -> pl.DataFrame:
        name = batch.columns[position]
        stored = batch.get_column(name)
        if not stored.null_count():
            return batch
        batch = batch.with_columns(canonical(stored.to_frame()).to_series().alias(name))
        present = pl.col(name)
        return batch.with_columns(pl.when(present.is_null()).then(values.of(batch)).otherwise(present).alias(name))

    return fill
