"""Timestamps that were decoded in two parts, seconds and nanoseconds, because pyarrow cannot hold them in one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyiceberg.types import (
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from formatkit.batches.arrow.types import Column
from formatkit.formats.orc.arrays import rebuilt, with_validity
from formatkit.formats.orc.failures import ContentError
from formatkit.formats.orc.projection import Wanted
from formatkit.formats.orc.read.writer_zone import ORC_EPOCH, WriterZone
from formatkit.formats.orc.tail import Kind

__all__ = ["ORC_EPOCH", "TIMESTAMP_TYPES", "holds_timestamps", "is_zoned", "join_timestamps", "value_counts"]

_SECOND = 1_000_000_000
_MOST_SECONDS = 1 << 61
TIMESTAMP_TYPES = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


def holds_timestamps(wanted: Wanted) -> bool:
    """Whether timestamps are decoded for the column, at whatever level."""
    return any(isinstance(one.field.field_type, TIMESTAMP_TYPES) and one.stored for one in wanted.walk())


def is_zoned(wanted: Wanted) -> bool:
    """Whether timestamps are decoded for the column, at whatever level, that depend on the zone of their writer."""
    return any(one.column.type.kind is Kind.TIMESTAMP and one.stored for one in wanted.walk())


def value_counts(wanted: Wanted, seconds: Column) -> Mapping[int, int]:
    """How many values each column of timestamps below has, by the number of its type; without those in unions."""
    match wanted.field.field_type:
        case StructType() if wanted.column.type.kind is Kind.UNION:
            return {}
        case StructType():
            pairs = [(child, seconds.field(i)) for i, child in enumerate(wanted.decoded)]
        case ListType():
            pairs = [(wanted.children[0], seconds.values)]
        case MapType():
            pairs = [(child, seconds.values.field(i)) for i, child in enumerate(wanted.children)]
        case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            return {wanted.column.type_id: len(seconds) - seconds.null_count}
        case _:
            return {}
    return {type_id: count for child in pairs for type_id, count in value_counts(*child).items()}


def join_timestamps(wanted: Wanted, seconds: Column, nanos: Column, zone: WriterZone | None) -> Column:
    """A column whose timestamps were decoded in two parts, as if it had been decoded at once; unions are tags still.

    Args:
        wanted: The column.
        seconds: It with seconds since 2015 in place of timestamps.
        nanos: It with timestamps that lie between 2015-01-01 and a second later.
        zone: The zone of the writer, unless that is UTC.
    """
    match wanted.field.field_type:
        case StructType() if wanted.column.type.kind is Kind.UNION:
            return seconds
        case StructType():
            children = [
                join_timestamps(child, seconds.field(i), nanos.field(i), zone) for i, child in enumerate(wanted.decoded)
            ]
            fields = [pa.field(str(i), child.type) for i, child in enumerate(children)]
            return rebuilt(pa.struct(fields), seconds, [seconds.buffers()[0]], children)
        case ListType():
            values = join_timestamps(wanted.children[0], seconds.values, nanos.values, zone)
            return rebuilt(pa.list_(values.type), seconds, seconds.buffers()[:2], [values])
        case MapType():
            parts = [
                join_timestamps(child, seconds.values.field(i), nanos.values.field(i), zone)
                for i, child in enumerate(wanted.children)
            ]
            entries = pa.StructArray.from_arrays(parts, ["0", "1"])
            return rebuilt(pa.list_(entries.type), seconds, seconds.buffers()[:2], [entries])
        case TimestampType() | TimestamptzType():
            return _joined(wanted, seconds, nanos, _SECOND // 1000, zone)
        case TimestampNanoType() | TimestamptzNanoType():
            return _joined(wanted, seconds, nanos, _SECOND, zone)
    return seconds


def _joined(wanted: Wanted, seconds: Column, nanos: Column, per_second: int, zone: WriterZone | None) -> Column:
    zone = zone if wanted.column.type.kind is Kind.TIMESTAMP else None
    whole = seconds.fill_null(0).to_numpy()
    _check(wanted, len(whole) == 0 or (whole.max() < _MOST_SECONDS and whole.min() > -_MOST_SECONDS))
    whole = whole + (ORC_EPOCH if zone is None else zone.epoch)
    part = nanos.view(pa.int64()).fill_null(ORC_EPOCH * _SECOND).to_numpy() - ORC_EPOCH * _SECOND
    # ORC's writers round seconds before 1970 towards it if a millisecond or more is left, its readers undo that.
    whole = whole - ((whole < 0) & (part > 999_999))
    part = np.floor_divide(part, _SECOND // per_second)
    # Only where seconds come near to what fits, the sum is checked value by value.
    near = np.flatnonzero(np.abs(whole) > np.iinfo(np.int64).max // per_second - 2)
    _check(wanted, all(_fits(int(whole[place]) * per_second + int(part[place])) for place in near))
    moments = whole * per_second + part
    if zone is not None:
        try:
            moments = zone.wall_times(moments, per_second)
        except OverflowError:
            _check(wanted, False)
    return with_validity(moments, seconds, wanted.arrow)


def _fits(moment: int) -> bool:
    return -(1 << 63) <= moment < 1 << 63


def _check(wanted: Wanted, holds: bool) -> None:
    if not holds:
        message = f"column {wanted.field.name!r} holds a timestamp that {wanted.field.field_type} cannot hold"
        raise ContentError(message)
