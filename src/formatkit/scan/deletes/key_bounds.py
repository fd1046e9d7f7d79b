"""Tells from metrics that no key of an equality delete file can be in a data file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyiceberg.types import DoubleType, FloatType, NestedField, UUIDType

from formatkit.contract.pruning import NOTHING, ChunkStatistics
from formatkit.scan.bounds import ManifestMetrics
from formatkit.scan.manifests import ManifestEntry

__all__ = ["KeyRange", "key_ranges", "may_meet"]

# NaN is outside of all bounds, and Java orders uuids in another way than the spec does.
_UNBOUNDED = (FloatType, DoubleType, UUIDType)


class KeyRange(NamedTuple):
    """What a column of a file may hold; bounds are None where they are unknown."""

    nulls: bool
    values: bool
    lower: Any
    upper: Any


def key_ranges(metrics: ManifestMetrics, entry: ManifestEntry, columns: Iterable[NestedField]) -> dict[int, KeyRange]:
    """What the manifest says about columns of a data file or of a file of keys."""
    found = metrics.of(entry)
    return {column.field_id: _range(found, column) for column in columns}


def _range(statistics: ChunkStatistics, column: NestedField) -> KeyRange:
    rows, metrics = statistics.row_count, statistics.columns.get(column.field_id, NOTHING)
    nulls = metrics.null_count if metrics.value_count == rows else None
    lower, upper = metrics.lower, metrics.upper
    if lower is None or upper is None or isinstance(column.field_type, _UNBOUNDED):
        lower = upper = None
    return KeyRange(nulls != 0, nulls != rows, lower, upper)


def may_meet(keys: Mapping[int, KeyRange], data: Mapping[int, KeyRange]) -> bool:
    """Whether a row of the data may equal a key, in all columns of the keys."""
    return all(_overlap(key, data[field_id]) for field_id, key in keys.items())


def _overlap(one: KeyRange, other: KeyRange) -> bool:
    if one.nulls and other.nulls:
        return True
    if not (one.values and other.values):
        return False
    if one.lower is None or other.lower is None:
        return True
    return _reaches(one.upper, other.lower) and _reaches(other.upper, one.lower)


def _reaches(upper: Any, lower: Any) -> bool:
    """Whether values up to the one bound may be as great as the other. Not every writer rounds a cut bound up."""
    return bool(lower <= upper or (isinstance(upper, str | bytes) and lower.startswith(upper)))
