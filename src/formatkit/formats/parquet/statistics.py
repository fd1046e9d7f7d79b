"""What the footer says about the values of a row group, as far as it can be trusted."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from pyiceberg.utils.decimal import unscaled_to_decimal

from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import ChunkStatistics
from formatkit.formats.parquet.elements import Element, Kind, Physical, Unit
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.schema import Column

__all__ = ["bounds", "chunk_statistics", "plain_value"]

_STATISTICS = 12
_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 1, 2, 3, 5, 6

_LAYOUTS = {
    Physical.BOOLEAN: struct.Struct("?"),
    Physical.INT32: struct.Struct("<i"),
    Physical.INT64: struct.Struct("<q"),
    Physical.FLOAT: struct.Struct("<f"),
    Physical.DOUBLE: struct.Struct("<d"),
}
_SIGNED = frozenset(_LAYOUTS)
_FLOAT16_BYTES = 2


def chunk_statistics(
    footer: Footer, row_group: RowGroup, columns: Mapping[int, Column], wanted: Iterable[int]
) -> ChunkStatistics:
    """The statistics of the `wanted` columns; those without usable statistics are left out."""
    metrics = {}
    for field_id in wanted:
        column = columns.get(field_id)
        if column is not None and column.element is not None and column.reason is None and not column.repeated:
            record = footer.chunk_record(row_group, column.leaves.start)
            if record is not None and isinstance(stored := record.meta_data.get(_STATISTICS), dict):
                metrics[field_id] = _metrics(column.element, stored, row_group.rows)
    return ChunkStatistics(row_count=row_group.rows, columns=metrics)


def _metrics(element: Element, stored: Mapping[int, Any], rows: int) -> ColumnMetrics:
    nulls = stored.get(_NULL_COUNT)
    lowest, highest = stored.get(_MIN_VALUE), stored.get(_MAX_VALUE)
    if lowest is None and highest is None and _old_bounds_hold(element):
        lowest, highest = stored.get(_OLD_MIN), stored.get(_OLD_MAX)
    lower, upper = bounds(element, plain_value(element, lowest), plain_value(element, highest))
    return ColumnMetrics(
        value_count=rows,
        null_count=nulls if isinstance(nulls, int) and 0 <= nulls <= rows else None,
        lower=lower,
        upper=upper,
    )


def _old_bounds_hold(element: Element) -> bool:
    """Whether the bounds that the format replaced, always in signed order, mean the same as the new ones."""
    unsigned = element.annotation is not None and not element.annotation.signed
    return element.physical in _SIGNED and not unsigned


def plain_value(element: Element, stored: Any) -> Any:
    """A value in plain encoding, or None if it is none."""
    if not isinstance(stored, bytes):
        return None
    match element.physical:
        case Physical.BYTE_ARRAY:
            return stored
        case Physical.FIXED:
            # A bound may be cut.
            return stored if len(stored) <= element.length else None
        case Physical.BOOLEAN | Physical.INT32 | Physical.INT64 | Physical.FLOAT | Physical.DOUBLE as physical:
            layout = _LAYOUTS[physical]
            return layout.unpack(stored)[0] if len(stored) == layout.size else None
    return None


def bounds(element: Element, lowest: Any, highest: Any) -> tuple[Any, Any]:
    """Stored extremes as bounds in internal values; None where they cannot be trusted."""
    if not element.is_ordered:
        return None, None
    lower = None if lowest is None else _internal_value(element, lowest)
    upper = None if highest is None else _internal_value(element, highest, upper=True)
    if element.kind is Kind.DECIMAL and (lower is None) + (upper is None) > (lowest is None) + (highest is None):
        # A bound has more digits than the type, so that nothing is known about the values.
        return None, None
    if isinstance(lower, float) and isinstance(upper, float):
        if math.isnan(lower) or math.isnan(upper):
            return None, None
        # Writers may drop the sign of zero, and zeros of both signs are equal.
        return lower or -0.0, upper or 0.0
    if lower is not None and upper is not None and lower > upper:
        # Written in another sort order, such as by signed bytes.
        return None, None
    return lower, upper


def _internal_value(element: Element, stored: Any, *, upper: bool = False) -> Any:
    annotation = element.annotation
    if annotation is None:
        return stored
    match annotation.kind:
        case Kind.DECIMAL:
            unscaled = stored if isinstance(stored, int) else int.from_bytes(stored, "big", signed=True)
            return unscaled_to_decimal(unscaled, annotation.scale) if abs(unscaled) < 10**annotation.precision else None
        case Kind.INTEGER if element.physical is Physical.INT64:
            return Decimal(stored & 0xFFFFFFFFFFFFFFFF)
        case Kind.INTEGER:
            return stored & 0xFFFFFFFF
        case Kind.TIME | Kind.TIMESTAMP if annotation.unit is Unit.MILLIS:
            return stored * 1000
        case Kind.STRING | Kind.ENUM | Kind.JSON:
            return _text(stored, upper=upper)
        case Kind.FLOAT16:
            return struct.unpack("<e", stored)[0] if len(stored) == _FLOAT16_BYTES else None
        case Kind.GEOMETRY | Kind.GEOGRAPHY | Kind.NULL:
            return None
        case _:
            return stored


def _text(stored: bytes, *, upper: bool) -> str | None:
    """A bound that may have been cut inside a character: a shorter lower bound still holds, an upper one does not."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return None if upper else stored.decode(errors="ignore")
