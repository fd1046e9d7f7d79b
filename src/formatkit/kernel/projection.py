"""Decides which columns of a file to read for the fields that a table asks for."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.contract.promotion import is_promotion
from formatkit.contract.values import absent_value
from formatkit.errors import IllegalPromotionError, MissingRequiredFieldError, UnsupportedError
from formatkit.kernel.names import Path, column_paths, dotted
from formatkit.kernel.resolve import ResolvedFile

__all__ = ["prune", "widen"]

Fields = tuple[NestedField, ...]


def widen(fields: Fields, paths: Iterable[Path]) -> Fields:
    """The table's fields together with those that the paths lead to, structs merged."""
    for path in paths:
        fields = _add(fields, path)
    return fields


def _add(fields: Fields, path: Path) -> Fields:
    head, rest = path[0], path[1:]
    present = next((field for field in fields if field.field_id == head.field_id), None)
    if rest:
        children = present.field_type.fields if present and isinstance(present.field_type, StructType) else ()
        merged = _with_type(present or head, StructType(*_add(children, rest)))
    else:
        merged = present or _with_type(head, _shell(head.field_type))
    if present is None:
        return (*fields, merged)
    return tuple(merged if field is present else field for field in fields)


def _shell(type_: IcebergType) -> IcebergType:
    """The type without the fields of its structs: enough to know which values are null."""
    if isinstance(type_, StructType):
        return StructType()
    if isinstance(type_, ListType):
        return _list_like(type_, type_.element_id, _shell(type_.element_type))
    if isinstance(type_, MapType):
        return _map_like(type_, (type_.key_id, type_.value_id), type_.key_type, _shell(type_.value_type))
    return type_


def prune(file: ResolvedFile, fields: Fields, constants: Mapping[int, Any], replaced: frozenset[int]) -> Fields:
    """The part of the file that holds the fields, in the file's order and types, with the ids of the table.

    Args:
        file: The file, with the table's ids.
        fields: What is wanted, as the table sees it.
        constants: Values for fields that the file lacks.
        replaced: Fields that are taken from `constants` although the file may have them.

    Raises:
        IllegalPromotionError: The file stores a type that must not be read as the table's.
        MissingRequiredFieldError: The file lacks a required field, and nothing else gives it a value.
        UnsupportedError: A wanted column has a type that cannot be read.
    """
    return _Pruner(file, constants, replaced).fields(file.schema.fields, fields, ())


class _Pruner:
    def __init__(self, file: ResolvedFile, constants: Mapping[int, Any], replaced: frozenset[int]) -> None:
        self._file = file
        self._constants = constants
        self._replaced = replaced
        self._unused_id: int | None = None

    def fields(self, stored: Fields, wanted: Fields, parents: Path) -> Fields:
        by_id = {field.field_id: field for field in stored}
        kept: dict[int, NestedField] = {}
        for field in wanted:
            column = by_id.get(field.field_id)
            if column is None or field.field_id in self._replaced or isinstance(field.field_type, UnknownType):
                self._check_absent(field, parents)
            else:
                path = (*parents, field)
                self._check_readable(column, path)
                kept[field.field_id] = _with_type(column, self._type(column.field_type, field.field_type, path))
        return tuple(kept[field.field_id] for field in stored if field.field_id in kept)

    def _type(self, stored: IcebergType, wanted: IcebergType, path: Path) -> IcebergType:
        if not is_promotion(stored, wanted):
            message = (
                f"column {dotted(path)!r} is {wanted} in the table but {stored} in {self._file.location}; "
                "Iceberg has no promotion from the one to the other"
            )
            facts = {"column": dotted(path), "file_type": str(stored), "table_type": str(wanted)}
            raise IllegalPromotionError(message, location=self._file.location, **facts)
        if isinstance(stored, StructType) and isinstance(wanted, StructType):
            children = self.fields(stored.fields, wanted.fields, path) or self._cheapest(stored.fields, path)
            return stored if _unchanged(children, stored.fields) else StructType(*children)
        if isinstance(stored, ListType) and isinstance(wanted, ListType):
            self._check_readable(stored.element_field, (*path, wanted.element_field))
            element = self._type(stored.element_type, wanted.element_type, (*path, wanted.element_field))
            return _list_like(stored, wanted.element_id, element)
        if isinstance(stored, MapType) and isinstance(wanted, MapType):
            self._check_readable(stored.key_field, (*path, wanted.key_field))
            self._check_readable(stored.value_field, (*path, wanted.value_field))
            key = self._type(stored.key_type, wanted.key_type, (*path, wanted.key_field))
            value = self._type(stored.value_type, wanted.value_type, (*path, wanted.value_field))
            return _map_like(stored, (wanted.key_id, wanted.value_id), key, value)
        return stored

    def _cheapest(self, stored: Fields, path: Path) -> Fields:
        """A child to read although nobody asked for it: without any, no reader can tell which structs are null."""
        readable = [
            field
            for field in stored
            if field.field_id not in self._file.unreadable and not isinstance(field.field_type, UnknownType)
        ]
        if not readable:
            if not stored:
                return ()
            message = f"no child of column {dotted(path)!r} in {self._file.location} can be read"
            raise UnsupportedError(message, location=self._file.location)
        child = min(readable, key=lambda field: _cost(field.field_type))
        type_ = _shell(child.field_type)
        pruned = _with_type(child, self._type(child.field_type, type_, (*path, child)))
        if child.field_id in self._replaced:
            # Under its own id the column would take the place of the constant.
            pruned = pruned.model_copy(update={"field_id": self._next_unused_id()})
        return (pruned,)

    def _next_unused_id(self) -> int:
        if self._unused_id is None:
            self._unused_id = min([0, *(path[-1].field_id for path in column_paths(self._file.schema))])
        self._unused_id -= 1
        return self._unused_id

    def _check_absent(self, field: NestedField, parents: Path) -> None:
        try:
            absent_value(field, self._constants)
        except MissingRequiredFieldError as error:
            message = (
                f"Missing required field: {dotted((*parents, field))} (id {field.field_id}) is not in "
                f"{self._file.location}, and neither a partition value nor an initial default gives it a value"
            )
            raise MissingRequiredFieldError(message, location=self._file.location, field=str(field)) from error

    def _check_readable(self, column: NestedField, path: Path) -> None:
        reason = self._file.unreadable.get(column.field_id)
        if reason is not None:
            message = (
                f"column {dotted(path)!r} of {self._file.location} cannot be read: {reason}; select the other columns"
            )
            raise UnsupportedError(message, location=self._file.location)


_COSTS: dict[type[IcebergType], int] = {BooleanType: 0, StructType: 4, ListType: 5, MapType: 5}
_COSTS |= dict.fromkeys((IntegerType, FloatType, DateType), 1)
_COSTS |= dict.fromkeys((LongType, DoubleType, TimeType, TimestampType, TimestamptzType), 2)
_COSTS |= dict.fromkeys((TimestampNanoType, TimestamptzNanoType, DecimalType, FixedType, UUIDType), 2)
_VARIABLE_LENGTH_COST = 3


def _cost(type_: IcebergType) -> int:
    return _COSTS.get(type(type_), _VARIABLE_LENGTH_COST)


def _unchanged(fields: Fields, original: Fields) -> bool:
    return len(fields) == len(original) and all(map(operator.is_, fields, original))


def _with_type(field: NestedField, type_: IcebergType) -> NestedField:
    return field if type_ is field.field_type else field.model_copy(update={"field_type": type_})


def _list_like(type_: ListType, element_id: int, element: IcebergType) -> ListType:
    return ListType(element_id=element_id, element_type=element, element_required=type_.element_required)


def _map_like(type_: MapType, ids: tuple[int, int], key: IcebergType, value: IcebergType) -> MapType:
    return MapType(key_id=ids[0], key_type=key, value_id=ids[1], value_type=value, value_required=type_.value_required)
