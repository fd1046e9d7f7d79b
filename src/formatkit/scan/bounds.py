"""Reads the metrics of files from manifests, as far as they can be believed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
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
    TimestamptzType,
    TimeType,
)

from formatkit.contract.metadata_columns import LAST_UPDATED, POS, ROW_ID
from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import ChunkStatistics, ColumnGate, Hint, count_dropped
from formatkit.contract.variant import VariantType
from formatkit.scan.manifests import ManifestEntry

__all__ = ["UNREADABLE", "ManifestMetrics", "claimed_bound", "decode_bound"]

_DATE_LENGTH = 4
_UNORDERED = (GeometryType, GeographyType, VariantType)
_INHERITED = {ROW_ID.field_id, LAST_UPDATED.field_id}
_UNITS_PER_DAY = {TimestampType: 86_400_000_000, TimestampNanoType: 86_400_000_000_000}


def decode_bound(type_: IcebergType, data: bytes | None) -> Any:
    """The bound as Iceberg's internal value, or None if it is absent or makes no sense for the type.

    A promotion changes the column's type but not the bounds that were written before, so the length tells what they
    are: a long may have been an int, a double a float, and a timestamp a date.
    """
    if data is None or not isinstance(type_, PrimitiveType) or isinstance(type_, _UNORDERED):
        return None
    try:
        if len(data) == _DATE_LENGTH and type(type_) in _UNITS_PER_DAY:
            return int.from_bytes(data, "little", signed=True) * _UNITS_PER_DAY[type(type_)]
        if not data and isinstance(type_, DecimalType):
            return None
        return from_bytes(type_, data)
    except (struct.error, TypeError, ValueError):
        return None


UNREADABLE = object()
"""Stands for a bound that makes no sense for its type. It has no type that a bound can have, so the gate drops it."""


def claimed_bound(type_: IcebergType, data: bytes | None) -> Any:
    """The bound as Iceberg's internal value, None if nothing is claimed, and `UNREADABLE` if it makes no sense."""
    bound = decode_bound(type_, data)
    if bound is None and data is not None and isinstance(type_, PrimitiveType) and not isinstance(type_, _UNORDERED):
        return UNREADABLE
    return bound


_LAYOUTS: dict[type[IcebergType], struct.Struct] = {
    **dict.fromkeys((IntegerType, DateType), struct.Struct("<i")),
    **dict.fromkeys((LongType, TimeType, TimestampType, TimestamptzType), struct.Struct("<q")),
    FloatType: struct.Struct("<f"),
    DoubleType: struct.Struct("<d"),
}
"""How bounds are usually stored. There may be a million of them, and `decode_bound` takes several times as long."""


def _bound_reader(type_: IcebergType) -> Callable[[bytes | None], Any]:
    """`claimed_bound` for the bounds of one column."""
    layout = _LAYOUTS.get(type(type_))
    if layout is None:
        return partial(claimed_bound, type_)
    unpack, size = layout.unpack, layout.size

    def read(data: bytes | None) -> Any:
        if data is None:
            return None
        return unpack(data)[0] if len(data) == size else claimed_bound(type_, data)

    return read


class ManifestMetrics:
    """What manifests claim about some columns of files, as far as it can be believed.

    Args:
        columns: The columns, with one value a row.
        schema: The schema they are in. Nothing is required of columns that are not at its top.
        counters: Where to count what is dropped.
    """

    def __init__(
        self,
        columns: Iterable[NestedField],
        schema: Schema | None = None,
        counters: MutableMapping[str, int] | None = None,
    ) -> None:
        own = {field.field_id: field for field in schema.fields} if schema is not None else {}
        self._counters = {} if counters is None else counters
        self._has_positions = False
        self._columns = []
        for column in columns:
            id_ = column.field_id
            if id_ == POS.field_id:
                self._has_positions = True
            # What a file stores of row lineage is completed by inheritance, so its metrics bound nothing.
            elif id_ not in _INHERITED:
                gate = ColumnGate(column.field_type, required=id_ in own and own[id_].required, nested=id_ not in own)
                self._columns.append((id_, _bound_reader(column.field_type), gate.admit))

    def of(self, entry: ManifestEntry) -> ChunkStatistics:
        """The metrics of one file."""
        rows, metrics = entry.row_count, {}
        for id_, bound, admit in self._columns:
            claim = ColumnMetrics(
                value_count=entry.value_counts.get(id_),
                null_count=entry.null_counts.get(id_),
                nan_count=entry.nan_counts.get(id_),
                lower=bound(entry.lower_bounds.get(id_)),
                upper=bound(entry.upper_bounds.get(id_)),
            )
            metrics[id_] = found = admit(claim, rows)
            if found is not claim:
                count_dropped(self._counters, Hint.MANIFEST_METRICS)
        if self._has_positions:
            metrics[POS.field_id] = ColumnMetrics(null_count=0, lower=0, upper=rows - 1)
        return ChunkStatistics(row_count=rows, columns=metrics)
