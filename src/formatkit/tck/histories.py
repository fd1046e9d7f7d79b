"""Hypothesis strategies for the life of a table's schema: what Iceberg lets it become, one change at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, time
from itertools import count
from typing import Any

from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
)

from formatkit.tck.literals import internal
from formatkit.tck.strategies import leaf_types, literals

__all__ = ["histories", "schemas"]

_NAMES = ["a", "b", "c", "d", "A", "one two", "ü", "_x"]


@dataclass(frozen=True)
class _Growth:
    """What one history has in common: hypothesis' hand, and ids that are never used twice."""

    draw: st.DrawFn
    ids: Iterator[int]
    nanoseconds: bool

    def field(self, taken: set[str], depth: int) -> NestedField:
        name = self.draw(st.sampled_from([name for name in _NAMES if name not in taken]))
        required = self.draw(st.sampled_from([False, False, False, True]))
        return NestedField(next(self.ids), name, self.type(depth), required=required)

    def type(self, depth: int) -> IcebergType:
        kinds = ["leaf"] * 4 + (["struct", "struct", "list", "map"] if depth else [])
        match self.draw(st.sampled_from(kinds)):
            case "struct":
                return self.struct(depth - 1)
            case "list":
                element = self.type(depth - 1)
                return ListType(next(self.ids), element, element_required=self.draw(st.booleans()))
            case "map":
                value = self.type(depth - 1)
                key = self.draw(st.sampled_from([StringType(), LongType(), DateType()]))
                return MapType(next(self.ids), key, next(self.ids), value, value_required=self.draw(st.booleans()))
        return self.draw(leaf_types(nanoseconds=self.nanoseconds))

    def struct(self, depth: int, *, most: int = 3) -> StructType:
        fields: list[NestedField] = []
        for _ in range(self.draw(st.integers(1, most))):
            fields.append(self.field({field.name for field in fields}, depth))
        return StructType(*fields)

    def changed(self, struct: StructType) -> StructType:
        """The struct after one change, here or in a struct below."""
        below = [index for index, field in enumerate(struct.fields) if _inner(field.field_type) is not None]
        go_below = self.draw(st.booleans())
        if below and go_below:
            index = self.draw(st.sampled_from(below))
            return _replaced(struct, index, field_type=self._changed_inside(struct.fields[index].field_type))
        changes = [self._add, self._add, self._drop, self._rename, self._move, self._promote, self._promote]
        return self.draw(st.sampled_from(changes))(struct)

    def _changed_inside(self, outer: IcebergType) -> IcebergType:
        match outer:
            case StructType():
                return self.changed(outer)
            case ListType():
                return ListType(outer.element_id, self._changed_inside(outer.element_type), outer.element_required)
            case MapType():
                value = self._changed_inside(outer.value_type)
                return MapType(outer.key_id, outer.key_type, outer.value_id, value, outer.value_required)
        raise AssertionError(outer)  # `changed` only goes where `_inner` found a struct

    def _add(self, struct: StructType) -> StructType:
        added = self.field({field.name for field in struct.fields}, depth=1)
        default: Any = None
        if _can_have_default(added.field_type) and (added.required or self.draw(st.booleans())):
            default = self.draw(literals(added.field_type).filter(_is_value_of(added.field_type)))
        required = added.required and default is not None
        added = NestedField(added.field_id, added.name, added.field_type, required=required, initial_default=default)
        fields = list(struct.fields)
        fields.insert(self.draw(st.integers(0, len(fields))), added)
        return StructType(*fields)

    def _drop(self, struct: StructType) -> StructType:
        if len(struct.fields) == 1:
            return struct
        dropped = self.draw(st.integers(0, len(struct.fields) - 1))
        return StructType(*(field for index, field in enumerate(struct.fields) if index != dropped))

    def _rename(self, struct: StructType) -> StructType:
        index = self.draw(st.integers(0, len(struct.fields) - 1))
        name = self.draw(st.sampled_from(_NAMES))
        holders = [other for other, field in enumerate(struct.fields) if field.name == name]
        for holder in holders:
            struct = _replaced(struct, holder, name=struct.fields[index].name)
        return _replaced(struct, index, name=name) if holders != [index] else struct

    def _move(self, struct: StructType) -> StructType:
        return StructType(*self.draw(st.permutations(struct.fields)))

    def _promote(self, struct: StructType) -> StructType:
        promotable = [index for index, field in enumerate(struct.fields) if self._wider(field)]
        if not promotable:
            return _replaced(struct, self.draw(st.integers(0, len(struct.fields) - 1)), required=False)
        index = self.draw(st.sampled_from(promotable))
        wider = self.draw(st.sampled_from(self._wider(struct.fields[index])))
        return _replaced(
            struct, index, field_type=wider, initial_default=_promoted_default(struct.fields[index], wider)
        )

    def _wider(self, field: NestedField) -> list[IcebergType]:
        match field.field_type:
            case IntegerType():
                return [LongType()]
            case FloatType():
                return [DoubleType()]
            case DateType():
                finest = [TimestampNanoType()] if self.nanoseconds and field.initial_default is None else []
                return [TimestampType(), *finest]
            case DecimalType() as narrow:
                return [DecimalType(precision, narrow.scale) for precision in (18, 38) if precision > narrow.precision]
        return []


@st.composite
def histories(draw: st.DrawFn, *, most_changes: int = 5, nanoseconds: bool = True) -> tuple[Schema, ...]:
    """The schemas of a table, oldest first. Ids are kept, as Iceberg demands, and never used for two fields.

    A file written with one of them must be readable with every later one: draw rows of the first schema, and
    `formatkit.tck.naive.evolve` says how the last one sees them.

    There are at most `most_changes` changes: fields added (with or without default), dropped, renamed, moved and
    promoted, at any level. Timestamps with nanoseconds can be left out.
    """
    growth = _Growth(draw, count(1), nanoseconds)
    struct = growth.struct(depth=2)
    versions = [struct]
    for _ in range(most_changes - draw(st.integers(0, most_changes))):
        struct = growth.changed(struct)
        versions.append(struct)
    return tuple(Schema(*struct.fields, schema_id=number) for number, struct in enumerate(versions))


def schemas(*, nanoseconds: bool = True) -> st.SearchStrategy[Schema]:
    """Schemas of tables that never changed: one to three columns of any type, nested up to two levels."""
    return histories(most_changes=0, nanoseconds=nanoseconds).map(lambda versions: versions[0])


def _inner(outer: IcebergType) -> StructType | None:
    match outer:
        case StructType():
            return outer
        case ListType():
            return _inner(outer.element_type)
        case MapType():
            return _inner(outer.value_type)
    return None


def _replaced(struct: StructType, index: int, **changes: Any) -> StructType:
    field = struct.fields[index]
    attributes: dict[str, Any] = {
        "field_id": field.field_id,
        "name": field.name,
        "field_type": field.field_type,
        "required": field.required,
        "initial_default": field.initial_default,
    }
    fields = list(struct.fields)
    fields[index] = NestedField(**(attributes | changes))
    return StructType(*fields)


def _promoted_default(field: NestedField, wider: IcebergType) -> Any:
    """The default as a writer stores it anew when it promotes the field."""
    default: Any = field.initial_default
    if isinstance(field.field_type, FloatType):
        return internal(default, field.field_type)
    if isinstance(wider, TimestampType) and default is not None:
        return datetime.combine(default, time())
    return default


def _can_have_default(iceberg_type: IcebergType) -> bool:
    # pyiceberg's fields refuse defaults of the nanosecond types.
    nanoseconds = isinstance(iceberg_type, TimestampNanoType | TimestamptzNanoType)
    return isinstance(iceberg_type, PrimitiveType) and not nanoseconds


def _is_value_of(iceberg_type: IcebergType) -> Callable[[Any], bool]:
    """Literals may lie outside the type; defaults may not."""
    match iceberg_type:
        case IntegerType():
            return lambda value: -(2**31) <= value < 2**31
        case FloatType():
            return lambda value: abs(value) < 3.5e38
        case DoubleType():
            return math.isfinite  # JSON, where defaults are kept, has no infinity
    return lambda value: True
