"""Types inside other types, for checks that must hold at every level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StringType, StructType

__all__ = ["NESTINGS", "list_of", "map_of", "one_column", "struct_of", "with_default"]


def one_column(kind: IcebergType) -> Schema:
    """A schema of one optional column `x` with id 1."""
    return Schema(NestedField(1, "x", kind))


def list_of(element: IcebergType, field_id: int = 90) -> ListType:
    """A list whose elements may be null."""
    return ListType(field_id, element, element_required=False)


def map_of(value: IcebergType) -> MapType:
    """A map from strings to values that may be null."""
    return MapType(91, StringType(), 92, value, value_required=False)


def struct_of(child: IcebergType) -> StructType:
    """A struct of one optional child."""
    return StructType(NestedField(93, "child", child))


def with_default(field: NestedField, value: Any) -> NestedField:
    """The field with an initial default, those included that PyIceberg refuses: of structs and of nanoseconds."""
    return field.model_copy(update={"initial_default": value})


Nesting = tuple[Callable[[IcebergType], IcebergType], Callable[[list[Any]], Any]]

NESTINGS: Mapping[str, Nesting] = {
    "struct": (struct_of, lambda values: {93: values[0]}),
    "list": (list_of, lambda values: values),
    "map": (map_of, lambda values: [(str(place), value) for place, value in enumerate(values)]),
    "list of structs": (lambda kind: list_of(struct_of(kind)), lambda values: [{93: value} for value in values]),
}
"""How a type is put inside another, and values of it (one at least) into one value of the other."""
