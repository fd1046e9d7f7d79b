"""What becomes of each field when a schema evolves, at every level: decided once, from the two schemas alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.batches.polars.constants import constant
from formatkit.contract.fields import child_fields
from formatkit.contract.promotion import is_promotion
from formatkit.contract.values import absent_value
from formatkit.errors import IllegalPromotionError

__all__ = ["Absent", "Slot", "Stored", "slots_of"]


@dataclass(frozen=True)
class Stored:
    """A field of the target that is in the source.

    Attributes:
        position: Where in the source.
        path: The names that lead to it.
        source: The type that is stored.
        target: The type that is wanted.
        slots: The fields below the target.
        refuses_null: Whether only the target forbids null.
    """

    position: int
    path: tuple[str, ...]
    source: IcebergType
    target: IcebergType
    slots: tuple[Slot, ...]
    refuses_null: bool

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class Absent:
    """A field of the target that the source lacks, and the value that it has instead."""

    value: pl.Expr


Slot = Stored | Absent


def slots_of(
    source: Sequence[NestedField],
    target: Sequence[NestedField],
    constants: Mapping[int, Any],
    path: tuple[str, ...] = (),
) -> tuple[Slot, ...]:
    """One slot for each field of the target, in its order.

    Raises:
        IllegalPromotionError: A type cannot be read as the one that is wanted.
        MissingRequiredFieldError: A required field is in neither the source nor the constants, and has no default.
    """
    positions = {field.field_id: position for position, field in enumerate(source)}
    return tuple(
        _stored(positions[field.field_id], source[positions[field.field_id]], field, constants, path)
        if field.field_id in positions
        else Absent(constant(field.field_type, absent_value(field, constants)))
        for field in target
    )


def _stored(
    position: int, source: NestedField, target: NestedField, constants: Mapping[int, Any], path: tuple[str, ...]
) -> Stored:
    path = (*path, target.name)
    return Stored(
        position=position,
        path=path,
        source=source.field_type,
        target=target.field_type,
        slots=_slots_below(source.field_type, target.field_type, constants, path),
        refuses_null=target.required and not source.required,
    )


def _slots_below(
    source: IcebergType, target: IcebergType, constants: Mapping[int, Any], path: tuple[str, ...]
) -> tuple[Slot, ...]:
    if not is_promotion(source, target):
        name = ".".join(path)
        message = (
            f"column {name!r} is stored as {source} and cannot be read as {target}: Iceberg widens int to long, float "
            "to double, a decimal's precision, date to timestamp without zone, and nothing else"
        )
        raise IllegalPromotionError(message, column=name, file_type=str(source), table_type=str(target))
    if isinstance(source, StructType) and isinstance(target, StructType):
        return slots_of(child_fields(source), child_fields(target), constants, path)
    if isinstance(source, ListType | MapType):
        # Elements, keys and values are what they are by their place, whatever their ids.
        pairs = zip(child_fields(source), child_fields(target), strict=False)
        return tuple(_stored(place, *pair, constants, path) for place, pair in enumerate(pairs))
    return ()
