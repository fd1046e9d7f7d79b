"""Finds the incoming row for a row of the table, by the columns that identify it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, BoundGreaterThanOrEqual, BoundIn, BoundLessThanOrEqual
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, ListType, MapType, PrimitiveType, UnknownType

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
from formatkit.scan.select import select_columns

__all__ = ["KeyIndex", "key_columns"]

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
        self._columns = [_KeyColumn(schema, path, incoming) for path in keys]
        names = [dotted(path) for path in keys]
        own = select_columns(schema, schema.fields, names, case_sensitive=True)
        self._narrow = ops.evolve(schema, own, {})
        batches = [self._narrow(batch) for batch in incoming]
        self._locate = ops.locate(own, batches)
        self._refuse_duplicates(batches)

    def rows_for(self, batch: pa.RecordBatch) -> Longs:
        """For each row of a batch the incoming row with its key, or -1."""
        return self._locate(self._narrow(batch))

    def filter(self) -> BooleanExpression:
        """A bound filter that all rows with one of the keys pass, and not many others."""
        return all_of([column.filter() for column in self._columns])

    def _refuse_duplicates(self, batches: Sequence[pa.RecordBatch]) -> None:
        seen = 0
        for batch in batches:
            first = self._locate(batch)
            again = np.flatnonzero(first != np.arange(seen, seen + batch.num_rows))
            if len(again):
                row = int(again[0])
                key = ", ".join(f"{column.name} = {column.values[seen + row]}" for column in self._columns)
                raise InvalidDataError(
                    f"the rows {first[row]} and {seen + row} of the data have the same key, {key}; an upsert needs one "
                    "row for each key"
                )
            seen += batch.num_rows


class _KeyColumn:
    """The values of a key column in all incoming rows."""

    def __init__(self, schema: Schema, path: Path, incoming: Sequence[pa.RecordBatch]) -> None:
        self.name = dotted(path)
        self._reference = ColumnReference(path, schema.accessor_for_field(path[-1].field_id))
        find = column_finder(field_path(schema, path[-1].field_id)[0])
        self.values: Any = pa.chunked_array(
            [without_encoding(find(batch)) for batch in incoming], storage_type(path[-1].field_type)
        )
        if self.values.null_count:
            row = self.values.is_null().index(True).as_py()
            raise InvalidDataError(f"row {row} of the data has no key: column {self.name!r} is null there")

    def filter(self) -> BooleanExpression:
        distinct = self.values.unique()
        if len(distinct) <= _MOST_LISTED:
            return member(BoundIn, self._reference, [Bracket.at(value) for value in _internal(distinct)])
        least, most = _internal(distinct.take(pc.sort_indices(distinct)).take([0, len(distinct) - 1]))
        return all_of(
            [
                compare(BoundGreaterThanOrEqual, self._reference, Bracket.at(least)),
                compare(BoundLessThanOrEqual, self._reference, Bracket.at(most)),
            ]
        )


def _internal(values: Any) -> list[Any]:
    if pa.types.is_temporal(values.type):
        values = values.view(f"int{values.type.bit_width}")
    return list(values.to_pylist())
