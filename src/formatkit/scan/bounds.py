"""Reads the metrics of data files from table metadata."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    NestedField,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
)

from formatkit.contract.metadata_columns import LAST_UPDATED, POS, ROW_ID
from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import ChunkStatistics
from formatkit.contract.variant import VariantType
from formatkit.scan.manifests import ManifestEntry

__all__ = ["decode_bound", "file_statistics"]

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
        return from_bytes(type_, data)
    except (struct.error, TypeError, ValueError):
        return None


def file_statistics(entry: ManifestEntry, columns: Iterable[NestedField]) -> ChunkStatistics:
    """What the manifest says about some columns of a file."""
    # What a file stores of row lineage is completed by inheritance, so its metrics bound nothing.
    metrics = {
        column.field_id: _column_metrics(entry, column) for column in columns if column.field_id not in _INHERITED
    }
    if POS.field_id in metrics:
        metrics[POS.field_id] = ColumnMetrics(null_count=0, lower=0, upper=entry.row_count - 1)
    return ChunkStatistics(row_count=entry.row_count, columns=metrics)


def _column_metrics(entry: ManifestEntry, column: NestedField) -> ColumnMetrics:
    id_ = column.field_id
    return ColumnMetrics(
        value_count=entry.value_counts.get(id_),
        null_count=entry.null_counts.get(id_),
        nan_count=entry.nan_counts.get(id_),
        lower=decode_bound(column.field_type, entry.lower_bounds.get(id_)),
        upper=decode_bound(column.field_type, entry.upper_bounds.get(id_)),
    )
