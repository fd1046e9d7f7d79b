"""`DataBatch` for Arrow's record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.batches.arrow.evolve import compile_evolution
from formatkit.batches.arrow.forms import decode
from formatkit.batches.arrow.inject import compile_injection
from formatkit.batches.arrow.keys import compile_distinct, compile_location, compile_longs
from formatkit.batches.arrow.metrics import ArrowMetricsCollector
from formatkit.batches.arrow.predicate import compile_predicate
from formatkit.batches.arrow.rows import rows
from formatkit.batches.arrow.types import ArrowType, Mask, arrow_field, arrow_schema
from formatkit.contract.batch import Booleans, InjectedColumn, Longs, Step
from formatkit.contract.metrics import MetricsCollector, MetricsMode
from formatkit.errors import ColumnNotFoundError, InvalidDataError

__all__ = ["ArrowBatch"]


class ArrowBatch:
    """The operations on `pa.RecordBatch`. See `formatkit.contract.DataBatch` for the clauses.

    Args:
        dictionary_ids: Top-level string and binary columns that `evolve` and `concat` hand out in dictionary form.
    """

    batch_type: type[pa.RecordBatch] = pa.RecordBatch

    def __init__(self, dictionary_ids: AbstractSet[int] = frozenset()) -> None:
        self.dictionary_ids = frozenset(dictionary_ids)

    def num_rows(self, batch: pa.RecordBatch) -> int:
        return batch.num_rows

    def filter(self, schema: Schema, predicate: BooleanExpression) -> Step[pa.RecordBatch]:
        if isinstance(predicate, AlwaysTrue):
            return _unchanged
        mask = compile_predicate(schema, predicate)
        return lambda batch: _select(batch, mask(batch)) if batch.num_rows else batch

    def project(self, schema: Schema, field_ids: Sequence[int]) -> Step[pa.RecordBatch]:
        positions = {field.field_id: position for position, field in enumerate(schema.fields)}
        for field_id in field_ids:
            if field_id not in positions:
                raise ColumnNotFoundError(f"id {field_id}", (f"{f.name} (id {f.field_id})" for f in schema.fields))
        chosen = [positions[field_id] for field_id in field_ids]
        if chosen == list(range(len(schema.fields))):
            return _unchanged
        return lambda batch: batch.select(chosen)

    def evolve(self, source: Schema, target: Schema, constants: Mapping[int, Any]) -> Step[pa.RecordBatch]:
        return compile_evolution(source, target, constants, self.dictionary_ids)

    def inject(self, schema: Schema, columns: Sequence[InjectedColumn]) -> Step[pa.RecordBatch]:
        return compile_injection(schema, columns)

    def longs(self, schema: Schema, field_id: int) -> Callable[[pa.RecordBatch], Longs]:
        return compile_longs(schema, field_id)

    def distinct(self, schema: Schema, field_id: int) -> Callable[[pa.RecordBatch], tuple[Sequence[Any], Longs]]:
        return compile_distinct(schema, field_id)

    def locate(self, schema: Schema, keys: Sequence[pa.RecordBatch]) -> Callable[[pa.RecordBatch], Longs]:
        return compile_location(schema, keys)

    def mark(self, schema: Schema, field: NestedField) -> Callable[[pa.RecordBatch, Booleans], pa.RecordBatch]:
        column = arrow_field(field)
        return lambda batch, marks: batch.append_column(column, pa.array(marks))

    def take_rows(self, batch: pa.RecordBatch, keep: Sequence[bool] | Booleans) -> pa.RecordBatch:
        mask: Mask = pa.array(np.asarray(keep, dtype=np.bool_))
        if len(mask) != batch.num_rows:
            message = f"{len(mask)} marks cannot select among {batch.num_rows} rows"
            raise InvalidDataError(message)
        return _select(batch, mask)

    def slice(self, batch: pa.RecordBatch, offset: int, length: int) -> pa.RecordBatch:
        return batch.slice(offset, length)

    def concat(self, schema: Schema, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        if not batches:
            kinds = arrow_schema(schema, self.dictionary_ids)
            types: list[ArrowType] = kinds.types
            return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in types], schema=kinds)
        evolve = self.evolve(schema, schema, {})
        canonical = [evolve(batch) for batch in batches]
        try:
            return canonical[0] if len(canonical) == 1 else pa.concat_batches(canonical)  # type: ignore[attr-defined]  # the stubs lack it
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            message = f"{len(batches)} batches do not fit into one: {error}"
            raise InvalidDataError(message) from error

    def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> MetricsCollector[pa.RecordBatch]:
        return ArrowMetricsCollector(schema, modes)

    def rows(self, schema: Schema, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        return rows(schema, batch)


def _unchanged(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _select(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    """The rows that `mask` marks; the same object if that is all of them."""
    kept = mask.true_count
    if kept == batch.num_rows:
        return batch
    if kept == 0:
        return batch.slice(0, 0)
    try:
        return batch.filter(mask)
    except pa.ArrowNotImplementedError:
        columns = [_select_column(column, mask) for column in batch.columns]
        fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _select_column(column: Any, mask: Mask) -> Any:
    """The values that `mask` marks, in the form of the column if Arrow can make it of plain values."""
    try:
        return column.filter(mask)
    except pa.ArrowNotImplementedError:
        plain = decode(column).filter(mask)
    try:
        if pa.types.is_run_end_encoded(column.type):
            return pc.run_end_encode(plain, run_end_type=column.type.run_end_type)  # type: ignore[attr-defined]  # the stubs lack it
        return plain.cast(column.type)
    except pa.ArrowNotImplementedError:
        return plain
