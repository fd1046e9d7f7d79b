"""`DataBatch` for Polars' frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.batches.polars.evolve import compile_evolution
from formatkit.batches.polars.forms import require
from formatkit.batches.polars.inject import compile_injection, free_names
from formatkit.batches.polars.keys import compile_distinct, compile_location, compile_longs
from formatkit.batches.polars.layouts import PerLayout
from formatkit.batches.polars.metrics import PolarsMetricsCollector
from formatkit.batches.polars.predicate import compile_predicate
from formatkit.batches.polars.rows import rows
from formatkit.batches.polars.types import polars_schema
from formatkit.contract.batch import Booleans, InjectedColumn, Longs, Step
from formatkit.contract.metrics import MetricsCollector, MetricsMode
from formatkit.errors import ColumnNotFoundError, InvalidDataError

__all__ = ["PolarsBatch"]


class PolarsBatch:
    """The operations on `polars.DataFrame`. See `formatkit.contract.DataBatch` for the clauses.

    A frame without columns keeps its height, which is why Polars 2 or later is needed.
    """

    batch_type: type[pl.DataFrame] = pl.DataFrame

    def num_rows(self, batch: pl.DataFrame) -> int:
        return batch.height

    def filter(self, schema: Schema, predicate: BooleanExpression) -> Step[pl.DataFrame]:
        if isinstance(predicate, AlwaysTrue):
            return _unchanged
        masks = PerLayout(compile_predicate(schema, predicate))

        def step(batch: pl.DataFrame) -> pl.DataFrame:
            mask, checks = masks.of(batch)
            if isinstance(mask, bool):
                return batch if mask else batch.slice(0, 0)
            require(batch, checks)
            return _select(batch, batch.select(mask).to_series())

        return step

    def project(self, schema: Schema, field_ids: Sequence[int]) -> Step[pl.DataFrame]:
        positions = {field.field_id: position for position, field in enumerate(schema.fields)}
        for field_id in field_ids:
            if field_id not in positions:
                raise ColumnNotFoundError(f"id {field_id}", (f"{f.name} (id {f.field_id})" for f in schema.fields))
        chosen = [positions[field_id] for field_id in field_ids]
        if chosen == list(range(len(schema.fields))):
            return _unchanged
        if not chosen:
            return lambda batch: pl.DataFrame(height=batch.height)
        return lambda batch: pl.DataFrame([batch.to_series(position) for position in chosen])

    def evolve(self, source: Schema, target: Schema, constants: Mapping[int, Any]) -> Step[pl.DataFrame]:
        return compile_evolution(source, target, constants)

    def inject(self, schema: Schema, columns: Sequence[InjectedColumn]) -> Step[pl.DataFrame]:
        return compile_injection(schema, columns)

    def longs(self, schema: Schema, field_id: int) -> Callable[[pl.DataFrame], Longs]:
        return compile_longs(schema, field_id)

    def distinct(self, schema: Schema, field_id: int) -> Callable[[pl.DataFrame], tuple[Sequence[Any], Longs]]:
        return compile_distinct(schema, field_id)

    def locate(self, schema: Schema, keys: Sequence[pl.DataFrame]) -> Callable[[pl.DataFrame], Longs]:
        return compile_location(schema, keys)

    def mark(self, schema: Schema, field: NestedField) -> Callable[[pl.DataFrame, Booleans], pl.DataFrame]:
        def append(batch: pl.DataFrame, marks: Booleans) -> pl.DataFrame:
            (name,) = free_names(batch.columns, [field.name])
            return batch.with_columns(pl.Series(name, marks))

        return append

    def take_rows(self, batch: pl.DataFrame, keep: Sequence[bool] | Booleans) -> pl.DataFrame:
        mask = pl.Series(np.asarray(keep, dtype=np.bool_))
        if len(mask) != batch.height:
            message = f"{len(mask)} marks cannot select among {batch.height} rows"
            raise InvalidDataError(message)
        return _select(batch, mask)

    def slice(self, batch: pl.DataFrame, offset: int, length: int) -> pl.DataFrame:
        return batch.slice(offset, length)

    def concat(self, schema: Schema, batches: Sequence[pl.DataFrame]) -> pl.DataFrame:
        if not batches:
            return pl.DataFrame(schema=polars_schema(schema))
        evolve = self.evolve(schema, schema, {})
        canonical = [evolve(batch) for batch in batches]
        return canonical[0] if len(canonical) == 1 else pl.concat(canonical)

    def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> MetricsCollector[pl.DataFrame]:
        return PolarsMetricsCollector(schema, modes)

    def rows(self, schema: Schema, batch: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
        return rows(schema, batch)


def _unchanged(batch: pl.DataFrame) -> pl.DataFrame:
    return batch


def _select(batch: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """The rows that `mask` marks; the same object if that is all of them."""
    return batch if mask.sum() == batch.height else batch.filter(mask)
