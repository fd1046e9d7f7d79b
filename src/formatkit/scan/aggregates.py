"""Count, min and max: from the metadata of a table where that is exact, from rows elsewhere.

Every source gives rows of one form, a column for each aggregate: a file that is not opened gives one row, a batch that
is read gives one row, and an executor of Spark sends one row. The answer is what they come to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from formatkit.batches.arrow.constants import column_of
from formatkit.batches.arrow.forms import without_encoding
from formatkit.batches.arrow.types import Column
from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import ChunkStatistics
from formatkit.contract.variant import VariantType
from formatkit.errors import ColumnNotFoundError, ConfigurationError, UnsupportedError
from formatkit.scan.tasks import FileTask

__all__ = ["Aggregates", "answerable"]

_FORM = re.compile(r"\s*(count|min|max)\s*(?:\(\s*(.+?)\s*\)\s*)?", re.IGNORECASE)
_UNORDERED = (GeometryType, GeographyType, VariantType)
# Bounds of strings and binaries may be shortened, and implementations disagree about the order of uuids.
_WITH_TIGHT_BOUNDS = (
    *(BooleanType, IntegerType, LongType, DecimalType, DateType, TimeType),
    *(TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType, FloatType, DoubleType),
)
_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


class _UnknownError(Exception):
    """The metadata of a file does not tell."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One of them; `column` is None where rows are counted."""

    text: str
    function: Literal["count", "min", "max"]
    column: NestedField | None = None

    @property
    def kind(self) -> IcebergType:
        """The type of the result."""
        return LongType() if self.function == "count" or self.column is None else self.column.field_type

    def over(self, column: Column | None, rows: int) -> Column:
        """The aggregate of a column of a batch."""
        if column is None:
            return pa.array([rows], pa.int64())
        if self.function == "count":
            return pa.array([rows - column.null_count], pa.int64())
        return self._extreme(column)

    def together(self, parts: Column) -> Column:
        """The aggregate of what it came to in each part."""
        if self.function == "count":
            return pa.array([pc.sum(parts).as_py() or 0], pa.int64())
        return self._extreme(parts)

    def _extreme(self, column: Column) -> Column:
        """The least or the greatest value. NaN is greater than any other number, as it is to Spark."""
        values = without_encoding(column).drop_null()
        if pa.types.is_floating(values.type):
            numbers = values.filter(pc.invert(pc.is_nan(values)))
            if len(numbers) < len(values) and (self.function == "max" or len(numbers) == 0):
                return column_of(self.kind, [math.nan])
            values = numbers
        if len(values) == 0 or pa.types.is_null(values.type):
            return column_of(self.kind, [None])
        extreme = pc.min_max(values)[self.function]
        found: Column = pa.array([extreme], extreme.type)
        wanted = column_of(self.kind, []).type
        return pa.ExtensionArray.from_storage(wanted, found) if isinstance(wanted, pa.BaseExtensionType) else found

    def known(self, statistics: ChunkStatistics, file_format: str) -> Any:
        """The aggregate of a whole file that has no deleted row. Raises `_UnknownError`."""
        rows = statistics.row_count
        if rows is None or rows < 0:
            raise _UnknownError
        if self.column is None:
            return rows
        metrics = statistics.columns.get(self.column.field_id, ColumnMetrics())
        nulls = metrics.null_count if metrics.value_count in (None, rows) else None
        if self.function == "count":
            if nulls is None or not 0 <= nulls <= rows:
                raise _UnknownError
            return rows - nulls
        if nulls == rows:
            return None
        if file_format == "orc" and isinstance(self.column.field_type, _TIMESTAMPS):
            # Iceberg for Java takes these bounds from ORC's statistics, which know milliseconds only.
            raise _UnknownError
        return _tight_bound(self.column.field_type, metrics, self.function)


def _tight_bound(kind: IcebergType, metrics: ColumnMetrics, function: str) -> Any:
    """The bound that is a value of the column, and not only below or above all of them."""
    lower, upper = metrics.lower, metrics.upper
    if lower is None or upper is None or not lower <= upper:
        raise _UnknownError
    if not isinstance(kind, _WITH_TIGHT_BOUNDS):
        # Between two bounds that are the same there is one value.
        if lower != upper:
            raise _UnknownError
        return lower
    bound = lower if function == "min" else upper
    # Some writers replace zero by the other zero.
    if isinstance(kind, FloatType | DoubleType) and (metrics.nan_count != 0 or bound == 0.0):
        raise _UnknownError
    return bound


class Aggregates(Sequence[Aggregate]):
    """What is asked for. Survives pickling."""

    def __init__(self, texts: Sequence[str], schema: Schema) -> None:
        """Read what is asked for.

        Args:
            texts: ``count``, ``count(x)``, ``min(x)`` and ``max(x)``.
            schema: Where the columns are.

        Raises:
            ConfigurationError: A text is none of these.
            ColumnNotFoundError: There is no such column.
            UnsupportedError: The values of a column have no order.
        """
        if not texts:
            raise ConfigurationError("say what to compute: count, count(column), min(column) or max(column)")
        self._each = tuple(_parse(text, schema) for text in dict.fromkeys(texts))

    def __getitem__(self, index: Any) -> Any:
        return self._each[index]

    def __len__(self) -> int:
        return len(self._each)

    @property
    def columns(self) -> tuple[NestedField, ...]:
        """The columns that have to be read."""
        return tuple({each.column.field_id: each.column for each in self if each.column is not None}.values())

    @property
    def schema(self) -> Schema:
        """The columns of the answer."""
        return Schema(*(NestedField(id_, each.text, each.kind, required=False) for id_, each in enumerate(self, 1)))

    def of_batches(self, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        """The answer for batches that have `columns`."""
        positions = {column.field_id: position for position, column in enumerate(self.columns)}
        parts = [
            self._batch(
                each.over(
                    None if each.column is None else batch.column(positions[each.column.field_id]), batch.num_rows
                )
                for each in self
            )
            for batch in batches
        ]
        return self.together(parts)

    def of_count(self, rows: int) -> pa.RecordBatch:
        """The answer where nothing but rows is counted."""
        return self._batch(pa.array([rows], pa.int64()) for _ in self)

    def of_files(
        self, files: Mapping[str, Sequence[FileTask]], metrics: Iterable[tuple[str, ChunkStatistics]]
    ) -> tuple[pa.RecordBatch, set[str]]:
        """The answer for files whose metadata tells, and which files these are.

        Args:
            files: The files in question.
            metrics: What the table says of each of its files.
        """
        found: list[list[Any]] = []
        answered: set[str] = set()
        for location, statistics in metrics:
            if location in files and location not in answered:
                try:
                    file_format = files[location][0].file_format
                    found.append([each.known(statistics, file_format) for each in self])
                except _UnknownError:
                    continue
                answered.add(location)
        columns = [column_of(each.kind, [row[i] for row in found]) for i, each in enumerate(self)]
        return self._batch(columns), answered

    def together(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """The answer for all parts, of which each has its own."""
        table = pa.Table.from_batches([*parts, self._batch(column_of(each.kind, []) for each in self)])
        columns = [column.combine_chunks() for column in table.columns]
        return self._batch(each.together(column) for each, column in zip(self, columns, strict=True))

    def _batch(self, columns: Iterable[Column]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(list(columns), names=[each.text for each in self])


def _parse(text: str, schema: Schema) -> Aggregate:
    match = _FORM.fullmatch(text)
    function: Any = match[1].lower() if match else ""
    if match is None or (match[2] is None and function != "count"):
        raise ConfigurationError(f"{text!r} is none of: count, count(column), min(column), max(column)")
    if match[2] in (None, "*"):
        return Aggregate(text, function)
    column = next((each for each in schema.fields if each.name == match[2]), None)
    if column is None:
        raise ColumnNotFoundError(match[2], (each.name for each in schema.fields))
    ordered = isinstance(column.field_type, PrimitiveType) and not isinstance(column.field_type, _UNORDERED)
    if function != "count" and not ordered:
        raise UnsupportedError(f"{text!r}: values of type {column.field_type} have no order")
    return Aggregate(text, function, column)


def answerable(tasks: Iterable[FileTask], *, keeps_deleted: bool) -> dict[str, list[FileTask]]:
    """The files that are read to the last row, with their tasks: those about which metadata may tell everything."""
    files: dict[str, list[FileTask]] = {}
    for task in tasks:
        files.setdefault(task.location, []).append(task)
    return {location: parts for location, parts in files.items() if _is_whole(parts, keeps_deleted=keeps_deleted)}


def _is_whole(parts: Sequence[FileTask], *, keeps_deleted: bool) -> bool:
    if any(task.residual is not AlwaysTrue() or (task.deletes and not keeps_deleted) for task in parts):
        return False
    if parts[0].split is None:
        return len(parts) == 1
    splits = {task.split for task in parts}
    return len(splits) == len(parts) and sum(each.length for each in splits if each) == parts[0].size_bytes
