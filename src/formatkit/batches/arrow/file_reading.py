"""What every reader of Arrow batches has to do with what it decoded: the asked columns, `_pos`, batches of a size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.batches.arrow.evolve import compile_evolution
from formatkit.batches.arrow.required import RequiredCheck
from formatkit.batches.arrow.types import arrow_field
from formatkit.contract.metadata_columns import POS
from formatkit.contract.options import ReadOptions
from formatkit.errors import ColumnNotFoundError, CorruptFileError, FormatkitError, UnsupportedError, machine_errors

__all__ = ["Projector", "decoding", "rows_without_columns"]


class Projector:
    """Makes the batches that a read asks for out of whole top-level columns (clauses R3, R6 and R7).

    Attributes:
        positions: Which top-level columns of the file are to be decoded, ascending.
    """

    def __init__(self, stored: Schema, options: ReadOptions) -> None:
        names = [field.name for field in stored.fields]
        wanted = [field for field in options.projection.fields if field.field_id != POS.field_id]
        for field in wanted:
            if field.name not in names:
                raise ColumnNotFoundError(field.name, names)
        self.positions = [names.index(field.name) for field in wanted]
        source = _Renumbering().schema([stored.fields[position] for position in self.positions], wanted)
        self._to_projection = compile_evolution(source, Schema(*wanted), {}, options.dictionary_columns)
        self._check_required = RequiredCheck(wanted)
        self._has_pos = len(wanted) < len(options.projection.fields)
        self._batch_rows = options.batch_rows

    def batches(self, columns: pa.RecordBatch, first_row: int) -> Iterator[pa.RecordBatch]:
        """Batches of the projection.

        Args:
            columns: The decoded columns, those of `positions` and no others.
            first_row: The ordinal in the file of their first row.

        Raises:
            InvalidDataError: The file calls a column required and has a null in it.
        """
        for start in range(0, columns.num_rows, self._batch_rows):
            batch = self._to_projection(columns.slice(start, self._batch_rows))
            self._check_required(batch, first_row + start)
            yield self._with_pos(batch, first_row + start) if self._has_pos else batch

    def _with_pos(self, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        ordinals = pa.array(np.arange(first_row, first_row + batch.num_rows, dtype=np.int64))
        schema = batch.schema.append(arrow_field(POS))
        return pa.RecordBatch.from_arrays([*batch.columns, ordinals], schema=schema)


def rows_without_columns(rows: int) -> pa.RecordBatch:
    """A batch that has rows and nothing in them."""
    # Only a batch that once had a column remembers how many rows it has.
    return pa.record_batch([pa.nulls(rows)], names=[""]).select([])


class _Renumbering:
    """Gives stored fields the ids of the projection, which has the same names; the others are not asked for."""

    def __init__(self) -> None:
        self._unused = 0

    def schema(self, stored: Sequence[NestedField], wanted: Sequence[NestedField]) -> Schema:
        return Schema(*self._fields(stored, wanted))

    def _fields(self, stored: Sequence[NestedField], wanted: Sequence[NestedField]) -> list[NestedField]:
        by_name = {field.name: field for field in wanted}
        return [self._field(field, by_name.get(field.name)) for field in stored]

    def _field(self, stored: NestedField, wanted: NestedField | None) -> NestedField:
        if wanted is None:
            return stored.model_copy(update={"field_id": self._next()})
        kind = self._type(stored.field_type, wanted.field_type)
        return stored.model_copy(update={"field_id": wanted.field_id, "field_type": kind})

    def _type(self, stored: IcebergType, wanted: IcebergType) -> IcebergType:
        match stored, wanted:
            case StructType(), StructType():
                return StructType(*self._fields(stored.fields, wanted.fields))
            case ListType(), ListType():
                element = self._type(stored.element_type, wanted.element_type)
                return ListType(wanted.element_id, element, stored.element_required)
            case MapType(), MapType():
                key = self._type(stored.key_type, wanted.key_type)
                value = self._type(stored.value_type, wanted.value_type)
                return MapType(wanted.key_id, key, wanted.value_id, value, stored.value_required)
        return stored

    def _next(self) -> int:
        # Below whatever ids a reader or the kernel hands out for fields without one.
        self._unused -= 1
        return self._unused - 2**31


@contextmanager
def decoding(location: str, what: str) -> Iterator[None]:
    """Turn what pyarrow says about unusable bytes into errors that name the file; `what` is the format's name."""
    try:
        with machine_errors(location):
            yield
    except (FormatkitError, pa.ArrowCancelled):
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{location}: cannot be decoded: {error}", location=location) from error
    except (pa.ArrowException, OSError, UnicodeError) as error:
        # A failure of the storage has a number; pyarrow reports broken bytes without one.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorruptFileError(f"{location}: is a corrupt {what} file: {error}", location=location) from error
