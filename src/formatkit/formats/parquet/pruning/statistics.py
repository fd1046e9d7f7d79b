"""What the footer claims about the values of a row group, in Iceberg's terms and as far as it can be believed."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyiceberg.types import IcebergType
from pyiceberg.utils.decimal import unscaled_to_decimal

from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import ChunkStatistics, Gate
from formatkit.formats.parquet.chunk_record import ChunkRecord
from formatkit.formats.parquet.elements import Element, Kind, Physical, Unit
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.pruning.writers import bounds_order, has_signed_order
from formatkit.formats.parquet.schema import Column

__all__ = ["RowGroupStatistics", "StoredLeaf", "stored_leaf", "stored_nulls"]

_STATISTICS, _SIZE_STATISTICS = 12, 16
_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX_VALUE, _MIN_VALUE, _MAX_IS_EXACT, _MIN_IS_EXACT = 1, 2, 3, 5, 6, 7, 8
_DEFINITION_LEVELS = 3

_LAYOUTS = {
    Physical.BOOLEAN: struct.Struct("?"),
    Physical.INT32: struct.Struct("<i"),
    Physical.INT64: struct.Struct("<q"),
    Physical.FLOAT: struct.Struct("<f"),
    Physical.DOUBLE: struct.Struct("<d"),
}
_FLOAT16_BYTES = 2


@dataclass(frozen=True)
class StoredLeaf:
    """What must be known of a leaf to read its bounds.

    Attributes:
        element: How values are stored.
        type_: Their type in Iceberg.
        required: Whether no row can be null.
        ordered: Whether bounds are in the order of the type.
        if_equal: Whether bounds count only where both are the same.
    """

    element: Element
    type_: IcebergType
    required: bool = False
    ordered: bool = True
    if_equal: bool = False

    def bounds(self, lowest: Any, highest: Any) -> tuple[Any, Any]:
        """Stored bounds as internal values. One that cannot be read or believed is no value of any type."""
        element = self.element
        if not self.ordered or (self.if_equal and lowest != highest):
            return None if lowest is None else _NO_VALUE, None if highest is None else _NO_VALUE
        lower = None if lowest is None else _internal_value(element, _plain_value(element, lowest))
        upper = None if highest is None else _internal_value(element, _plain_value(element, highest), upper=True)
        # The specification has readers ignore bounds that are NaN, which is what sound writers store beside a NaN.
        return (lower, upper) if lower == lower and upper == upper else (None, None)


def stored_leaf(footer: Footer, column: Column) -> StoredLeaf | None:
    """The leaf of a column with one value a row that bounds can be about; None for other columns."""
    if column.element is None or column.reason is not None or column.repeated:
        return None
    leaf = column.leaves.start
    order = bounds_order(footer, leaf, column.element)
    return StoredLeaf(
        column.element,
        column.field.field_type,
        required=footer.metadata.schema.column(leaf).max_definition_level == 0,
        ordered=order.known and column.element.is_ordered,
        if_equal=order.if_equal,
    )


class RowGroupStatistics:
    """The statistics of some columns in the row groups of a file.

    Args:
        footer: The footer of the file.
        columns: The columns by the ids that the predicate uses.
        wanted: The ids of those in question.
        counters: Where to count what is dropped.
    """

    def __init__(
        self,
        footer: Footer,
        columns: Mapping[int, Column],
        wanted: Iterable[int],
        counters: MutableMapping[str, int],
    ) -> None:
        self._footer = footer
        self._places: dict[int, int] = {}
        self._leaves: dict[int, StoredLeaf] = {}
        for field_id in wanted:
            column = columns.get(field_id)
            if column is not None and (leaf := stored_leaf(footer, column)) is not None:
                self._places[field_id], self._leaves[field_id] = column.leaves.start, leaf
        types = {field_id: leaf.type_ for field_id, leaf in self._leaves.items()}
        required = [field_id for field_id, leaf in self._leaves.items() if leaf.required]
        self._gate = Gate(types, counters, required=required)

    def of(self, row_group: RowGroup) -> ChunkStatistics:
        """The statistics of one of them; columns without any are left out."""
        claims = {}
        for field_id, leaf in self._leaves.items():
            record = self._footer.chunk_record(row_group, self._places[field_id])
            if record is not None and isinstance(stored := record.meta_data.get(_STATISTICS), dict):
                claims[field_id] = _claim(leaf, record, stored, row_group.rows)
        return self._gate.statistics(row_group.rows, claims)


def stored_nulls(record: ChunkRecord) -> int | None:
    """How many nulls the footer claims for a chunk."""
    stored = record.meta_data.get(_STATISTICS)
    nulls = stored.get(_NULL_COUNT) if isinstance(stored, dict) else None
    return nulls if type(nulls) is int else None


def _claim(leaf: StoredLeaf, record: ChunkRecord, stored: Mapping[int, Any], rows: int) -> ColumnMetrics:
    nulls, values = stored.get(_NULL_COUNT), rows
    filled = _filled(record)
    if filled is not None and type(nulls) is int and nulls >= 0:
        values = filled + nulls
    lowest, highest = stored.get(_MIN_VALUE), stored.get(_MAX_VALUE)
    if lowest is None and highest is None and has_signed_order(leaf.element):
        lowest, highest = stored.get(_OLD_MIN), stored.get(_OLD_MAX)
    if lowest is not None and lowest == highest and _is_inexact(stored):
        # Between bounds that are the same there is nothing but themselves, so both would be exact.
        lower = upper = _NO_VALUE
    else:
        lower, upper = leaf.bounds(lowest, highest)
    return ColumnMetrics(value_count=values, null_count=nulls, lower=lower, upper=upper)


def _is_inexact(stored: Mapping[int, Any]) -> bool:
    return stored.get(_MIN_IS_EXACT) is False or stored.get(_MAX_IS_EXACT) is False


def _filled(record: ChunkRecord) -> int | None:
    """How many values are not null, by the histogram of definition levels, where there is one."""
    sizes = record.meta_data.get(_SIZE_STATISTICS)
    levels = sizes.get(_DEFINITION_LEVELS) if isinstance(sizes, dict) else None
    # Chunks without nulls may have an empty histogram.
    return levels[-1] if isinstance(levels, list) and len(levels) > 1 and type(levels[-1]) is int else None


def _plain_value(element: Element, stored: Any) -> Any:
    """A value in plain encoding, or `_NO_VALUE`."""
    if not isinstance(stored, bytes):
        return _NO_VALUE
    match element.physical:
        case Physical.BYTE_ARRAY:
            return stored
        case Physical.FIXED:
            # Bounds of plain bytes may be cut.
            cut = len(stored) < element.length and element.kind not in (Kind.DECIMAL, Kind.FLOAT16, Kind.UUID)
            return stored if len(stored) == element.length or cut else _NO_VALUE
        case Physical.BOOLEAN | Physical.INT32 | Physical.INT64 | Physical.FLOAT | Physical.DOUBLE as physical:
            layout = _LAYOUTS[physical]
            return layout.unpack(stored)[0] if len(stored) == layout.size else _NO_VALUE
    return _NO_VALUE


_NO_VALUE = object()
"""Stands for a bound that cannot be read. It has no type that a bound can have, so the gate drops it."""


def _internal_value(element: Element, stored: Any, *, upper: bool = False) -> Any:
    annotation = element.annotation
    if annotation is None or stored is _NO_VALUE:
        return stored
    match annotation.kind:
        case Kind.DECIMAL:
            unscaled = stored if isinstance(stored, int) else int.from_bytes(stored, "big", signed=True)
            return unscaled_to_decimal(unscaled, annotation.scale)
        case Kind.INTEGER if not annotation.signed:
            return Decimal(stored & 0xFFFFFFFFFFFFFFFF) if element.physical is Physical.INT64 else stored & 0xFFFFFFFF
        case Kind.TIME | Kind.TIMESTAMP if annotation.unit is Unit.MILLIS:
            return stored * 1000
        case Kind.STRING | Kind.ENUM | Kind.JSON:
            return _text(stored, upper=upper)
        case Kind.FLOAT16:
            return struct.unpack("<e", stored)[0] if len(stored) == _FLOAT16_BYTES else _NO_VALUE
        case _:
            return stored


def _text(stored: bytes, *, upper: bool) -> Any:
    """A bound that may have been cut inside a character: a shorter lower bound still holds, an upper one does not."""
    try:
        return stored.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return _NO_VALUE
        return None if upper else stored[: error.start].decode()
