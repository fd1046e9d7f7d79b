"""Finds rows among key rows: columns become codes, and the codes of a row become one.

A column's code is the ordinal of its value among the distinct values of the keys. Codes of two columns are combined
into the ordinal of their pair among the pairs that occur, so that numbers stay small for any number of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.schema import Schema
from pyiceberg.types import UnknownType

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.evolve import compile_evolution
from formatkit.batches.arrow.forms import as_type
from formatkit.batches.arrow.rows import rows
from formatkit.batches.arrow.types import ArrowType, Column
from formatkit.contract.batch import Longs
from formatkit.contract.fields import field_path, key_paths
from formatkit.errors import InvalidDataError

__all__ = ["compile_distinct", "compile_location", "compile_longs"]

_ABSENT = -1
_SLOTS_PER_NUMBER = 16
_MOST_SLOT_BITS = 24
_MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)


def compile_longs(schema: Schema, field_id: int) -> Callable[[pa.RecordBatch], Longs]:
    """A function that gives a long column as an array."""
    path, field = field_path(schema, field_id)
    find = column_finder(path)

    def longs(batch: pa.RecordBatch) -> Longs:
        column = as_type(find(batch), pa.int64(), field.name)
        if column.null_count:
            message = f"column {field.name!r} holds {column.null_count} nulls where numbers are needed"
            raise InvalidDataError(message)
        return np.asarray(column)

    return longs


def compile_distinct(schema: Schema, field_id: int) -> Callable[[pa.RecordBatch], tuple[Sequence[Any], Longs]]:
    """A function that gives the distinct values of a column, and for each row which of them it has."""
    path, field = field_path(schema, field_id)
    find, alone = column_finder(path), Schema(field)
    canonical = compile_evolution(alone, alone, {})

    def distinct(batch: pa.RecordBatch) -> tuple[Sequence[Any], Longs]:
        column = canonical(pa.RecordBatch.from_arrays([find(batch)], [field.name])).column(0)
        # Arrow has no dictionaries of extension types; rows are shown by the schema, whatever holds them.
        stored: Any = column.storage if isinstance(column, pa.ExtensionArray) else column
        encoded: Any = stored.dictionary_encode(null_encoding="encode")
        values = pa.RecordBatch.from_arrays([encoded.dictionary], [field.name])
        return [row[0] for row in rows(alone, values)], np.asarray(encoded.indices, np.int64)

    return distinct


def compile_location(schema: Schema, keys: Sequence[pa.RecordBatch]) -> Callable[[pa.RecordBatch], Longs]:
    """A function that gives for each row the ordinal of the first key row that equals it, or -1."""
    finders = [
        column_finder(path) for path, field in key_paths(schema) if not isinstance(field.field_type, UnknownType)
    ]
    canonical = compile_evolution(schema, schema, {})

    def columns(batch: pa.RecordBatch) -> list[Column]:
        plain = canonical(batch)
        return [_comparable(find(plain)) for find in finders]

    chunks = [columns(batch) for batch in keys]
    count = sum(batch.num_rows for batch in keys)
    if not count:
        return lambda batch: np.full(batch.num_rows, _ABSENT, np.int64)
    codes = _Codes(count)
    for parts in zip(*chunks, strict=True):
        codes.add(pa.chunked_array(parts).combine_chunks())
    firsts = codes.finish()

    def locate(batch: pa.RecordBatch) -> Longs:
        found = codes.of(columns(batch), batch.num_rows)
        rows = np.flatnonzero(found != _ABSENT)
        found[rows] = firsts[found[rows]]
        return found

    return locate


def _comparable(column: Column) -> Column:
    """The column in a type whose values are equal exactly if they are the same."""
    if isinstance(column, pa.ExtensionArray):
        return column.storage
    if pa.types.is_floating(column.type):
        nan = pa.scalar(float("nan"), column.type)
        return pc.if_else(pc.is_nan(column), nan, column).view(f"int{column.type.bit_width}")
    return column


class _Codes:
    """The codes of rows: first those of their first column, then combined with those of each other one."""

    def __init__(self, count: int) -> None:
        self._values: list[_Values] = []
        self._pairs: list[Longs] = []
        self._codes: Longs = np.zeros(count, np.int64)

    def add(self, column: Column) -> None:
        """Take another column of the keys into account."""
        values = _values(column)
        added = values.codes(column)
        if self._values:
            pairs, self._codes = np.unique(self._codes * values.count + added, return_inverse=True)
            self._pairs.append(pairs)
        else:
            self._codes = added
        self._values.append(values)

    def finish(self) -> Longs:
        """For each code the first key row that has it."""
        codes, rows = np.unique(self._codes, return_index=True)
        firsts: Longs = np.zeros(codes[-1] + 1, np.int64)
        firsts[codes] = rows
        self._codes = np.empty(0, np.int64)
        return firsts

    def of(self, columns: Sequence[Column], rows: int) -> Longs:
        """The codes of other rows, -1 where no key row has the same."""
        if not columns:
            return np.zeros(rows, np.int64)
        codes = self._values[0].codes(columns[0])
        for column, values, pairs in zip(columns[1:], self._values[1:], self._pairs, strict=True):
            if not (codes != _ABSENT).any():
                break
            added = values.codes(column)
            combined = codes * values.count + added
            places = np.minimum(np.searchsorted(pairs, combined), len(pairs) - 1)
            known = (codes != _ABSENT) & (added != _ABSENT) & (pairs[places] == combined)
            codes = np.where(known, places, _ABSENT)
        return codes


class _Values(Protocol):
    """The distinct values of a column of the keys; all codes are below `count`."""

    count: int

    def codes(self, column: Column) -> Longs:
        """The codes of values, -1 for those that no key has."""
        ...


def _values(column: Column) -> _Values:
    return _Numbers(column) if _is_number(column.type) else _AnyValues(column)


class _AnyValues:
    """Values of any type. Arrow builds a table of them anew for each batch."""

    def __init__(self, column: Column) -> None:
        self._distinct = column.unique()
        self.count = len(self._distinct)

    def codes(self, column: Column) -> Longs:
        found: Any = pc.index_in(column, value_set=self._distinct)
        return np.asarray(found.fill_null(_ABSENT), np.int64)


class _Numbers:
    """Numbers of at most 64 bits. A filter of hashes rules out most others before anything is searched."""

    def __init__(self, column: Column) -> None:
        # NumPy's `unique` hashes, which takes many times as long.
        numbers = np.sort(_integers(column.drop_null()))
        self._sorted = numbers[np.diff(numbers, prepend=numbers[:1] - 1) != 0]
        self._null = len(self._sorted) if column.null_count else _ABSENT
        self.count = len(self._sorted) + 1
        self._shift = 64 - min(max(self.count * _SLOTS_PER_NUMBER, 1).bit_length(), _MOST_SLOT_BITS)
        self._filter = np.zeros(1 << (64 - self._shift), np.bool_)
        self._filter[self._slots(self._sorted)] = True

    def codes(self, column: Column) -> Longs:
        numbers = _integers(column.fill_null(0) if column.null_count else column)
        codes: Longs = np.full(len(numbers), _ABSENT, np.int64)
        rows = np.flatnonzero(self._filter[self._slots(numbers)])
        if rows.size:
            places = np.searchsorted(self._sorted, numbers[rows])
            same = self._sorted[np.minimum(places, len(self._sorted) - 1)] == numbers[rows]
            codes[rows[same]] = places[same]
        if column.null_count:
            codes[np.asarray(column.is_null())] = self._null
        return codes

    def _slots(self, numbers: Longs) -> NDArray[np.uint64]:
        return (numbers.view(np.uint64) * _MULTIPLIER) >> np.uint64(self._shift)


def _is_number(kind: ArrowType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_temporal(kind)


def _integers(column: Column) -> Longs:
    return np.asarray(column.view(f"int{column.type.bit_width}"), np.int64)
