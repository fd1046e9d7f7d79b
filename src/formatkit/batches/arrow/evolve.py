"""Batches of one schema turned into batches of another: compiled once for a pair of schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow.constants import ConstantColumn
from formatkit.batches.arrow.forms import (
    as_type,
    build_list,
    build_struct,
    child_of,
    is_list_like,
    list_parts,
    no_form_of,
    without_encoding,
)
from formatkit.batches.arrow.types import ArrowType, Column, arrow_schema, storage_type
from formatkit.batches.arrow.variant import as_variant
from formatkit.contract.promotion import is_promotion
from formatkit.contract.values import absent_value
from formatkit.contract.variant import VariantType
from formatkit.errors import ContractViolationError, IllegalPromotionError, InvalidDataError

__all__ = ["compile_evolution"]

Convert = Callable[[Column], Column]


def compile_evolution(
    source: Schema, target: Schema, constants: Mapping[int, Any], dictionary_ids: AbstractSet[int] = frozenset()
) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function that turns batches of `source` into canonical batches of `target` (clause B4)."""
    schema = arrow_schema(target, dictionary_ids)
    width = len(source.fields)
    slots = _slots(source.fields, target.fields, schema.types, constants, ())
    in_place = _in_place(slots, width)

    def evolve(batch: pa.RecordBatch) -> pa.RecordBatch:
        if in_place and batch.schema.equals(schema, check_metadata=True):
            return batch
        if batch.num_columns != width:
            raise ContractViolationError("B1", f"a batch has {batch.num_columns} columns, its schema has {width}")
        if not slots:
            return batch.select([]).replace_schema_metadata(None)
        columns = [slot.fill(batch.column, batch.num_rows, 0) for slot in slots]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return evolve


@dataclass(frozen=True)
class _Conversion:
    """How a column of one type becomes a column of another.

    Attributes:
        wanted: The Arrow type of the result.
        convert: Does it, for a column in any physical form.
        keeps: Whether a column that is of the wanted Arrow type already is right as it is.
    """

    wanted: ArrowType
    convert: Convert
    keeps: bool

    def __call__(self, column: Column) -> Column:
        if self.keeps and column.type.equals(self.wanted, check_metadata=True):
            return column
        return self.convert(column)


@dataclass(frozen=True)
class _Stored:
    """A field of the target that is in the source, at `position`."""

    name: str
    position: int
    conversion: _Conversion
    refuses_null: bool

    def fill(self, column_at: Callable[[int], Column], _length: int, parent_nulls: int) -> Column:
        column = self.conversion(column_at(self.position))
        if self.refuses_null and column.null_count > parent_nulls:
            message = f"column {self.name!r} is required, but {column.null_count - parent_nulls} of its values are null"
            raise InvalidDataError(message)
        return column


@dataclass(frozen=True)
class _Absent:
    """A field of the target that the source lacks."""

    constant: ConstantColumn

    def fill(self, _column_at: Callable[[int], Column], length: int, _parent_nulls: int) -> Column:
        return self.constant.of(length)


def _slots(
    source: Sequence[NestedField],
    target: Sequence[NestedField],
    wanted: Sequence[ArrowType],
    constants: Mapping[int, Any],
    path: tuple[str, ...],
) -> list[_Stored | _Absent]:
    """One slot for each field of a target struct, in its order."""
    positions = {field.field_id: position for position, field in enumerate(source)}
    slots: list[_Stored | _Absent] = []
    for field, kind in zip(target, wanted, strict=True):
        position = positions.get(field.field_id)
        if position is None:
            value = absent_value(field, constants)
            slots.append(_Absent(ConstantColumn(field.field_type, value, kind)))
        else:
            slots.append(_stored(position, source[position], field, kind, constants, path))
    return slots


def _stored(
    position: int,
    source: NestedField,
    target: NestedField,
    wanted: ArrowType,
    constants: Mapping[int, Any],
    path: tuple[str, ...],
) -> _Stored:
    path = (*path, target.name)
    conversion = _conversion(source.field_type, target.field_type, wanted, constants, path)
    return _Stored(".".join(path), position, conversion, refuses_null=target.required and not source.required)


def _in_place(slots: Sequence[_Stored | _Absent], width: int) -> bool:
    """Whether the slots are the source's own columns in their order, unchanged and unchecked."""
    return len(slots) == width and all(
        isinstance(slot, _Stored) and slot.position == position and slot.conversion.keeps and not slot.refuses_null
        for position, slot in enumerate(slots)
    )


def _conversion(
    source: IcebergType,
    target: IcebergType,
    wanted: ArrowType,
    constants: Mapping[int, Any],
    path: tuple[str, ...],
) -> _Conversion:
    name = ".".join(path)
    # Types are slow to compare, and most columns are of the table's own.
    is_same = source is target or source == target
    if not is_same and not is_promotion(source, target):
        message = (
            f"column {name!r} is stored as {source} and cannot be read as {target}: Iceberg widens int to long, float "
            "to double, a decimal's precision, date to timestamp without zone, and nothing else"
        )
        raise IllegalPromotionError(message, column=name, file_type=str(source), table_type=str(target))
    if isinstance(source, UnknownType) or isinstance(target, UnknownType):
        return _Conversion(wanted, lambda column: pa.nulls(len(column), wanted), keeps=is_same)
    if isinstance(source, StructType) and isinstance(target, StructType):
        return _struct(source.fields, target.fields, wanted, constants, path)
    if isinstance(source, ListType) and isinstance(target, ListType):
        element = _stored(0, source.element_field, target.element_field, wanted.value_type, constants, path)
        return _list(element, wanted, name)
    if isinstance(source, MapType) and isinstance(target, MapType):
        entry = (wanted.key_field, wanted.item_field)
        key = _stored(0, source.key_field, target.key_field, entry[0].type, constants, path)
        value = _stored(1, source.value_field, target.value_field, entry[1].type, constants, path)
        return _map((key, value), wanted, name)
    return _Conversion(wanted, _flat(source, target, wanted, name), keeps=is_same)


def _struct(
    source: Sequence[NestedField],
    target: Sequence[NestedField],
    wanted: ArrowType,
    constants: Mapping[int, Any],
    path: tuple[str, ...],
) -> _Conversion:
    kinds = [wanted.field(i).type for i in range(wanted.num_fields)]
    slots = _slots(source, target, kinds, constants, path)
    width = len(source)

    def convert(column: Column) -> Column:
        column = without_encoding(column)
        if not isinstance(column, pa.StructArray) or column.type.num_fields != width:
            raise no_form_of(column.type, wanted, ".".join(path))
        child = partial(child_of, column)
        children = [slot.fill(child, len(column), column.null_count) for slot in slots]
        return build_struct(wanted, children, column)

    return _Conversion(wanted, convert, keeps=_in_place(slots, width))


def _list(element: _Stored, wanted: ArrowType, name: str) -> _Conversion:
    def convert(column: Column) -> Column:
        column = without_encoding(column)
        if not is_list_like(column.type) or pa.types.is_map(column.type):
            raise no_form_of(column.type, wanted, name)
        parts = list_parts(column)
        return build_list(wanted, parts, element.fill(lambda _: parts.values, len(parts.values), 0))

    return _Conversion(wanted, convert, keeps=_in_place([element], 1))


def _map(entry: Sequence[_Stored], wanted: ArrowType, name: str) -> _Conversion:
    entry_type = pa.struct([wanted.key_field, wanted.item_field])

    def convert(column: Column) -> Column:
        column = without_encoding(column)
        if not isinstance(column, pa.MapArray):
            raise no_form_of(column.type, wanted, name)
        parts = list_parts(column)
        children = [slot.fill(parts.values.field, len(parts.values), 0) for slot in entry]
        return build_list(wanted, parts, build_struct(entry_type, children, parts.values))

    return _Conversion(wanted, convert, keeps=_in_place(entry, 2))


def _flat(source: IcebergType, target: IcebergType, wanted: ArrowType, name: str) -> Convert:
    storage = storage_type(target)
    if isinstance(source, BinaryType) and isinstance(target, StringType):
        return lambda column: _to_text(as_type(column, pa.binary(), name), wanted, name)
    if isinstance(source, DateType) and not isinstance(target, DateType):
        return lambda column: _days_to_timestamps(as_type(column, pa.date32(), name), wanted, name)
    if isinstance(target, UUIDType):
        return lambda column: pa.ExtensionArray.from_storage(wanted, as_type(column, storage, name))
    if isinstance(target, VariantType):
        return lambda column: as_variant(column, name)
    if pa.types.is_dictionary(wanted):
        return lambda column: _to_dictionary(column, storage, name)
    return lambda column: as_type(column, storage, name)


def _days_to_timestamps(days: Column, wanted: ArrowType, name: str) -> Column:
    try:
        return days.cast(wanted)
    except pa.ArrowInvalid as error:
        message = f"column {name!r} holds a date that {wanted} cannot hold: {error}"
        raise InvalidDataError(message) from error


def _to_text(column: Column, wanted: ArrowType, name: str) -> Column:
    try:
        text = column.cast(pa.string())
        return text.dictionary_encode() if pa.types.is_dictionary(wanted) else text
    except pa.ArrowInvalid as error:
        message = f"column {name!r} is stored as binary and holds a value that is not UTF-8 text: {error}"
        raise InvalidDataError(message) from error


def _to_dictionary(column: Column, value_type: ArrowType, name: str) -> Column:
    if isinstance(column, pa.DictionaryArray):
        values = as_type(column.dictionary, value_type, name)
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), values)
    return as_type(column, value_type, name).dictionary_encode()
