"""Columns that are computed rather than read: constants, and constants plus the row's position."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.constants import ConstantColumn
from formatkit.batches.arrow.evolve import compile_evolution
from formatkit.batches.arrow.forms import as_type
from formatkit.batches.arrow.types import Column, arrow_field
from formatkit.contract.batch import InjectedColumn
from formatkit.contract.fields import field_path
from formatkit.contract.values import internal_value
from formatkit.errors import InvalidDataError

__all__ = ["compile_injection"]


def compile_injection(schema: Schema, columns: Sequence[InjectedColumn]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function that appends `columns` to batches of `schema`, or fills the nulls of those that are there."""
    positions = {field.field_id: position for position, field in enumerate(schema.fields)}
    appended = [
        (arrow_field(column.field), _values(schema, column))
        for column in columns
        if column.field.field_id not in positions
    ]
    filled = [
        _filler(schema, column, positions[column.field.field_id])
        for column in columns
        if column.field.field_id in positions
    ]

    def inject(batch: pa.RecordBatch) -> pa.RecordBatch:
        result = batch
        for fill in filled:
            result = fill(result)
        if not appended:
            return result
        arrays = result.columns + [values(batch) for _, values in appended]
        fields = [*result.schema, *(field for field, _ in appended)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    return inject


def _values(schema: Schema, column: InjectedColumn) -> Callable[[pa.RecordBatch], Column]:
    """What the column holds where nothing is stored, for each batch."""
    if column.plus is None or column.value is None:
        constant = ConstantColumn(column.field.field_type, column.value)
        return lambda batch: constant.of(batch.num_rows)
    path, field = field_path(schema, column.plus)
    find = column_finder(path)
    start = pa.scalar(internal_value(column.field.field_type, column.value), pa.int64())

    def plus(batch: pa.RecordBatch) -> Column:
        try:
            return pc.add_checked(as_type(find(batch), pa.int64(), field.name), start)
        except pa.ArrowInvalid as error:
            message = f"column {column.field.name!r} leaves the range of long: {error}"
            raise InvalidDataError(message) from error

    return plus


def _filler(schema: Schema, column: InjectedColumn, position: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    values = _values(schema, column)
    field = schema.fields[position]
    canonical = compile_evolution(Schema(field), Schema(field), {})

    def fill(batch: pa.RecordBatch) -> pa.RecordBatch:
        stored = canonical(batch.select([position]))
        present: Column = stored.column(0)
        if present.null_count == 0 or column.value is None:
            return batch
        return batch.set_column(position, stored.schema.field(0), _coalesce(present, values(batch)))

    return fill


def _coalesce(present: Column, absent: Column) -> Column:
    # Arrow's own coalesce knows no extension types.
    rows = np.arange(len(present))
    source = np.where(present.is_valid(), rows, rows + len(present))
    return pa.concat_arrays([present, absent]).take(pa.array(source))
