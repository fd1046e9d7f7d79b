"""Finds the incoming row for a row of the table, by the columns that identify it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, BoundGreaterThanOrEqual, BoundIn, BoundLessThanOrEqual
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, ListType, MapType, NestedField, PrimitiveType, UnknownType

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.forms import without_encoding
from formatkit.batches.arrow.types import storage_type
from formatkit.contract.batch import DataBatch, Longs
from formatkit.contract.fields import field_path
from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, InvalidDataError
from formatkit.kernel import find_column
from formatkit.kernel.intervals import Bracket
from formatkit.kernel.names import Path, dotted, path_to
from formatkit.kernel.predicates import ColumnReference, all_of, compare, member

__all__ = ["KeyColumns", "KeyIndex", "KeySummary", "key_columns"]

_MOST_LISTED = 1000
"""Keys that a filter lists one by one; of more it only says between which they are."""


def key_columns(schema: Schema, names: Sequence[str] | None, *, case_sensitive: bool = True) -> tuple[Path, ...]:
    """The columns that identify a row: those that are named, else the identifier fields of the schema.

    Raises:
        ConfigurationError: There are none, or one of them cannot identify anything.
        ColumnNotFoundError, AmbiguousColumnError: A name fits no column, or several.
    """
    if names is None:
        found = [path for id_ in sorted(schema.identifier_field_ids) if (path := path_to(schema, id_)) is not None]
    else:
        found = [find_column(schema, name, case_sensitive=case_sensitive) for name in names]
    if not found:
        raise ConfigurationError(
            "an upsert needs columns that identify a row; the table's schema has no identifier fields, so name them: "
            'join_columns=["id"]'
        )
    for path in found:
        _check_key(path)
    return tuple(found)


def _check_key(path: Path) -> None:
    kind = path[-1].field_type
    if any(isinstance(parent.field_type, ListType | MapType) for parent in path[:-1]):
        raise ConfigurationError(f"column {dotted(path)!r} is inside a list or map, and cannot identify a row")
    if not isinstance(kind, PrimitiveType) or isinstance(kind, FloatType | DoubleType | UnknownType | VariantType):
        raise ConfigurationError(f"column {dotted(path)!r} is {kind}, and cannot identify a row")


class KeyColumns:
    """The columns that identify a row, side by side, wherever in structs they are.

    Attributes:
        names: Of the columns, with dots.
        schema: Of the batches that `of` returns: a column for each key, which may be null where a struct is.
    """

    def __init__(self, schema: Schema, paths: Sequence[Path]) -> None:
        self.names = [dotted(path) for path in paths]
        self.schema = Schema(
            *(
                NestedField(path[-1].field_id, name, path[-1].field_type, required=False)
                for path, name in zip(paths, self.names, strict=True)
            )
        )
        self._references = [ColumnReference(path, schema.accessor_for_field(path[-1].field_id)) for path in paths]
        self._finders = [column_finder(field_path(schema, path[-1].field_id)[0]) for path in paths]

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The keys of a batch."""
        return pa.RecordBatch.from_arrays([without_encoding(find(batch)) for find in self._finders], self.names)

    def values(self, keys: Sequence[pa.RecordBatch]) -> list[Any]:
        """Each column of some keys, in the type that Arrow compares."""
        types = [storage_type(field.field_type) for field in self.schema.fields]
        return [
            pa.chunked_array([_stored(batch.column(index)) for batch in keys], kind) for index, kind in enumerate(types)
        ]

    def in_words(self, keys: pa.RecordBatch) -> str:
        """The first of some keys."""
        values = (values[0] for values in self.values([keys]))
        return ", ".join(f"{name} = {value}" for name, value in zip(self.names, values, strict=True))

    def summaries(self, keys: Sequence[pa.RecordBatch]) -> list[KeySummary]:
        """What a filter needs to know of some keys, none of which may be null: little, however many they are."""
        return [KeySummary.of(values) for values in self.values(keys)]

    def filter(self, keys: Sequence[pa.RecordBatch]) -> BooleanExpression:
        """A bound filter that all rows with one of these keys pass, and not many others. No key may be null."""
        return self.filter_by(self.summaries(keys))

    def filter_by(self, summaries: Sequence[KeySummary]) -> BooleanExpression:
        """The same, of summaries: one for each column."""
        pairs = zip(self._references, summaries, strict=True)
        return all_of([summary.filter(reference) for reference, summary in pairs])


@dataclass(frozen=True)
class KeySummary:
    """The values of a key column: all of them if they are few, else the least and the greatest. Can be pickled."""

    values: Any
    is_range: bool

    @classmethod
    def of(cls, values: Any) -> KeySummary:
        distinct = values.unique()
        if len(distinct) <= _MOST_LISTED:
            return cls(distinct, is_range=False)
        ordered = pc.sort_indices(distinct)
        return cls(distinct.take(ordered.take(pa.array([0, len(distinct) - 1]))), is_range=True)

    @classmethod
    def together(cls, parts: Sequence[KeySummary]) -> KeySummary:
        """Of the values of all parts."""
        values = pa.concat_arrays([part.values for part in parts])
        if not any(part.is_range for part in parts):
            return cls.of(values)
        ordered = pc.sort_indices(values)
        return cls(values.take(ordered.take(pa.array([0, len(values) - 1]))), is_range=True)

    def filter(self, reference: ColumnReference) -> BooleanExpression:
        values = _internal(self.values)
        if not self.is_range:
            return member(BoundIn, reference, [Bracket.at(value) for value in values])
        least, most = values
        return all_of(
            [
                compare(BoundGreaterThanOrEqual, reference, Bracket.at(least)),
                compare(BoundLessThanOrEqual, reference, Bracket.at(most)),
            ]
        )


class KeyIndex:
    """Finds rows of a table among incoming ones by their keys.

    Args:
        schema: Of the batches.
        keys: The columns that identify a row.
        incoming: Rows in the canonical form of the schema.
        ops: The operations on batches.

    Raises:
        InvalidDataError: Two incoming rows have the same key, or a part of a key is null.
    """

    def __init__(
        self, schema: Schema, keys: Sequence[Path], incoming: Sequence[pa.RecordBatch], ops: DataBatch[pa.RecordBatch]
    ) -> None:
        self._columns = KeyColumns(schema, keys)
        self._keys = [self._columns.of(batch) for batch in incoming]
        self._refuse_nulls()
        self._locate = ops.locate(self._columns.schema, self._keys)
        self._refuse_duplicates()

    def rows_for(self, batch: pa.RecordBatch) -> Longs:
        """For each row of a batch the incoming row with its key, or -1."""
        return self._locate(self._columns.of(batch))

    def filter(self) -> BooleanExpression:
        """A bound filter that all rows with one of the keys pass, and not many others."""
        return self._columns.filter(self._keys)

    def _refuse_nulls(self) -> None:
        for name, values in zip(self._columns.names, self._columns.values(self._keys), strict=True):
            if values.null_count:
                row = values.is_null().index(True).as_py()
                raise InvalidDataError(f"row {row} of the data has no key: column {name!r} is null there")

    def _refuse_duplicates(self) -> None:
        seen = 0
        for batch in self._keys:
            first = self._locate(batch)
            again = np.flatnonzero(first != np.arange(seen, seen + batch.num_rows))
            if len(again):
                row = int(again[0])
                key = self._columns.in_words(batch.slice(row))
                raise InvalidDataError(
                    f"the rows {first[row]} and {seen + row} of the data have the same key, {key}; an upsert needs one "
                    "row for each key"
                )
            seen += batch.num_rows


def _stored(column: Any) -> Any:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _internal(values: Any) -> list[Any]:
    if pa.types.is_temporal(values.type):
        values = values.view(f"int{values.type.bit_width}")
    return list(values.to_pylist())
