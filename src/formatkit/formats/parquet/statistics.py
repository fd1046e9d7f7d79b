"""What the footer says about the values of a row group, as far as it can be trusted."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.utils.decimal import unscaled_to_decimal

from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import ChunkStatistics
from formatkit.formats.parquet.elements import Element, Kind, Physical, Unit
from formatkit.formats.parquet.schema import Column

__all__ = ["chunk_statistics"]


def chunk_statistics(
    row_group: pq.RowGroupMetaData, columns: Mapping[int, Column], wanted: Iterable[int]
) -> ChunkStatistics:
    """The statistics of the `wanted` columns; those without usable statistics are left out."""
    metrics = {}
    for field_id in wanted:
        column = columns.get(field_id)
        if column is not None and column.element is not None and column.reason is None and not column.repeated:
            chunk = row_group.column(column.leaves.start)
            if (found := _metrics(column.element, chunk, row_group.num_rows)) is not None:
                metrics[field_id] = found
    return ChunkStatistics(row_count=row_group.num_rows, columns=metrics)


def _metrics(element: Element, chunk: pq.ColumnChunkMetaData, rows: int) -> ColumnMetrics | None:
    statistics = chunk.statistics
    if statistics is None:
        return None
    lower = upper = None
    if statistics.has_min_max and element.physical is not Physical.INT96:
        lower, upper = bounds(element, statistics.min_raw, statistics.max_raw)
    return ColumnMetrics(
        value_count=rows,
        null_count=statistics.null_count,
        lower=lower,
        upper=upper,
    )


def bounds(element: Element, lowest: Any, highest: Any) -> tuple[Any, Any]:
    """Stored extremes as bounds in internal values; None where they cannot be trusted."""
    lower, upper = _internal_value(element, lowest), _internal_value(element, highest, upper=True)
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
            return unscaled_to_decimal(unscaled, annotation.scale)
        case Kind.INTEGER if not annotation.signed:
            return stored & 0xFFFFFFFF
        case Kind.TIME | Kind.TIMESTAMP if annotation.unit is Unit.MILLIS:
            return stored * 1000
        case Kind.STRING | Kind.ENUM | Kind.JSON:
            return _text(stored, upper=upper)
        case Kind.FLOAT16:
            return struct.unpack("<e", stored)[0]
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
