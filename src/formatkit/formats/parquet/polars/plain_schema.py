"""The columns of a projection as the plainest Parquet schema that stores the same levels and values.

What a file says about its columns is read once, by this package, and Polars is not asked to understand it again: it is
shown the wanted leaves only, lists in three levels, maps as lists of structs, and annotations only where values differ
by them. Repetition and definition levels stay what they are, because required groups add none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    FloatType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
)

from formatkit.batches.polars.types import polars_type
from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import POS
from formatkit.forks import cached
from formatkit.formats.parquet.elements import Element, Physical, Repetition, Unit
from formatkit.formats.parquet.schema import Column
from formatkit.formats.parquet.thrift import Field, binary, encode, i32
from formatkit.formats.parquet.types import is_usual_decimal

__all__ = ["PlainSchema", "plain_schema"]

_UTF8, _LIST, _DECIMAL, _DATE, _TIME_MILLIS, _TIME_MICROS = 0, 3, 5, 6, 7, 8
_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_UNITS = {Unit.MILLIS: "ms", Unit.MICROS: "us", Unit.NANOS: "ns"}


@dataclass(frozen=True, kw_only=True)
class PlainLeaf:
    """A leaf: which one of the file, its physical type, and its path in the plain schema."""

    index: int
    physical: Physical
    path: tuple[str, ...]


@dataclass(kw_only=True)
class PlainSchema:
    """A schema to show to Polars.

    Attributes:
        elements: The encoded schema elements, the root left out.
        leaves: In the order of the elements.
        names: The top-level columns.
        casts: What becomes of some of them once they are decoded: timestamps are decoded as the numbers that they are.
        decimals: Those that hold decimals, and their names in the projection.
    """

    elements: list[bytes] = field(default_factory=list)
    leaves: list[PlainLeaf] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    casts: dict[str, pl.DataType] = field(default_factory=dict)
    decimals: dict[str, str] = field(default_factory=dict)

    @cached
    def root(self) -> bytes:
        """The element above all columns."""
        return encode(binary(4, b"root"), i32(5, len(self.names)))


class _NotPlainError(Exception):
    """Polars would not decode the column exactly."""


def plain_schema(columns: Sequence[Column], projection: Schema) -> PlainSchema | None:
    """The plain schema of the stored columns of `projection`; None if Polars cannot decode one of them exactly.

    Columns without stored values, of type unknown or `_pos`, are left out. Top-level columns are named by their
    position in the projection, others as the projection has it.
    """
    named = {column.field.name: column for column in columns}
    schema = PlainSchema()
    try:
        for position, wanted in enumerate(projection.fields):
            if wanted.field_id == POS.field_id or isinstance(wanted.field_type, UnknownType):
                continue
            column, name = named[wanted.name], str(position)
            schema.names.append(name)
            if _holds_decimals(wanted.field_type):
                schema.decimals[name] = wanted.name
            _Emission(schema).field(column, wanted.field_type, name, ())
            if _holds_timestamps(wanted.field_type):
                schema.casts[name] = _decoded_type(column, wanted.field_type)
    except _NotPlainError:
        return None
    return schema


class _Emission:
    def __init__(self, schema: PlainSchema) -> None:
        self._schema = schema

    def field(self, column: Column, kind: IcebergType, name: str, path: tuple[str, ...]) -> None:
        """A column and what is below it, as far as `kind` has it."""
        repetition = Repetition.REQUIRED if column.field.required else Repetition.OPTIONAL
        path = (*path, name)
        match kind:
            case StructType(fields=fields):
                self._group(name, repetition, len(fields))
                for child, wanted in _pairs(column, fields):
                    self.field(child, wanted.field_type, wanted.name, path)
            case ListType(element_type=element):
                self._group(name, repetition, 1, annotation=_LIST)
                self._group("list", Repetition.REPEATED, 1)
                self.field(column.children[0], element, "element", (*path, "list"))
            case MapType(value_type=value):
                self._group(name, repetition, 1, annotation=_LIST)
                self._group("list", Repetition.REPEATED, 1)
                self._group("element", Repetition.REQUIRED, 2)
                key_column, value_column = column.children
                if not key_column.field.required:
                    raise _NotPlainError
                path = (*path, "list", "element")
                self.field(key_column, key_column.field.field_type, "key", path)
                self.field(value_column, value, "value", path)
            case _:
                self._leaf(column, kind, name, repetition, path)

    def _group(self, name: str, repetition: Repetition, children: int, annotation: int | None = None) -> None:
        fields = [i32(3, repetition), binary(4, name.encode()), i32(5, children)]
        self._schema.elements.append(encode(*fields, *([] if annotation is None else [i32(6, annotation)])))

    def _leaf(
        self, column: Column, kind: IcebergType, name: str, repetition: Repetition, path: tuple[str, ...]
    ) -> None:
        element = column.element
        if element is None or element.physical is None or not _is_exact(element, kind):
            raise _NotPlainError
        fields: list[Field] = [i32(1, element.physical)]
        if element.physical is Physical.FIXED:
            fields.append(i32(2, element.length))
        fields += [i32(3, repetition), binary(4, name.encode()), *_annotation(element, kind)]
        self._schema.elements.append(encode(*fields))
        self._schema.leaves.append(PlainLeaf(index=column.leaves[0], physical=element.physical, path=path))


def _pairs(column: Column, fields: Sequence[NestedField]) -> Iterator[tuple[Column, NestedField]]:
    named = {child.field.name: child for child in column.children}
    return ((named[wanted.name], wanted) for wanted in fields)


def _is_exact(element: Element, kind: IcebergType) -> bool:
    """Whether Polars reads the values as they are meant; the rest is foreign to Iceberg's own writers."""
    physical = element.physical
    match kind:
        case UnknownType():
            return False
        case FloatType():
            return physical is Physical.FLOAT
        case LongType():
            return physical is Physical.INT64
        case DecimalType():
            return is_usual_decimal(element)
    return physical is not Physical.INT96


def _annotation(element: Element, kind: IcebergType) -> list[Field]:
    match kind:
        case StringType():
            return [i32(6, _UTF8)]
        case DateType():
            return [i32(6, _DATE)]
        case TimeType():
            return [i32(6, _TIME_MILLIS if element.physical is Physical.INT32 else _TIME_MICROS)]
        case DecimalType(precision=precision, scale=scale):
            return [i32(6, _DECIMAL), i32(7, scale), i32(8, precision)]
    return []


def _holds_decimals(kind: IcebergType) -> bool:
    return isinstance(kind, DecimalType) or any(_holds_decimals(child.field_type) for child in child_fields(kind))


def _holds_timestamps(kind: IcebergType) -> bool:
    return isinstance(kind, _TIMESTAMPS) or any(_holds_timestamps(child.field_type) for child in child_fields(kind))


def _decoded_type(column: Column, kind: IcebergType) -> pl.DataType:
    """What Polars makes of a column once numbers are taken for the timestamps that they are."""
    match kind:
        case StructType(fields=fields):
            children = {
                wanted.name: _decoded_type(child, wanted.field_type) for child, wanted in _pairs(column, fields)
            }
            return pl.Struct(children)
        case ListType(element_type=element):
            return pl.List(_decoded_type(column.children[0], element))
        case MapType(value_type=value):
            key_column, value_column = column.children
            key = _decoded_type(key_column, key_column.field.field_type)
            return pl.List(pl.Struct({"key": key, "value": _decoded_type(value_column, value)}))
    kind_of = polars_type(kind)
    if isinstance(kind, _TIMESTAMPS) and column.element is not None and column.element.annotation is not None:
        assert isinstance(kind_of, pl.Datetime)  # noqa: S101
        return pl.Datetime(_UNITS[column.element.annotation.unit], kind_of.time_zone)  # type: ignore[arg-type]
    return kind_of
