"""Partition specs, the short way."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import parse_transform

__all__ = ["spec_of"]


def spec_of(parts: Iterable[tuple[int, str]], spec_id: int = 0) -> PartitionSpec:
    """A spec of pairs of source field id and transform, with names and ids that no other spec id has."""
    fields = [
        PartitionField(source, 1000 + 10 * spec_id + place, parse_transform(transform), f"p{spec_id}_{place}")
        for place, (source, transform) in enumerate(parts)
    ]
    return PartitionSpec(*fields, spec_id=spec_id)
