"""Decodes the Avro files of table metadata, manifest lists and manifests, with the decoder of data files.

They are input like data files: nothing in them is trusted, and the memory that they take is bounded by their length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UnknownType,
)

from formatkit.batches.arrow.types import Column as ArrowColumn
from formatkit.batches.arrow.types import arrow_field
from formatkit.contract.fields import too_deep
from formatkit.errors import UnsupportedError
from formatkit.formats.avro.avro_types import parse_schema
from formatkit.formats.avro.codecs import CODECS, MAX_BLOCK_BYTES, decompress
from formatkit.formats.avro.container import Block, Header, blocks, read_header
from formatkit.formats.avro.decoding import Decoding
from formatkit.formats.avro.failures import BlockError, corrupt
from formatkit.formats.avro.program import Program, compile_program
from formatkit.formats.avro.schema import Column, file_columns
from formatkit.io import MemorySource

__all__ = ["Field", "Kind", "Records", "read_records"]

_SCHEMA = "avro.schema"
_PLAIN = "null"
_BATCH_ROWS = 1024
# Each file that a manifest lists has a name of its own, of which some bytes are left however it is compressed. Small
# manifests may hold more, because it is not much then.
_MAX_EXPANSION = 256
_MIN_EXPANDED_BYTES = 16 * 1024 * 1024
_MIN_RECORD_BYTES = 4
_MIN_RECORDS = 50_000


class Kind(Enum):
    """What the values of a field are."""

    INTEGER = "an integer"
    STRING = "a string"
    BINARY = "bytes"
    BOOLEAN = "a boolean"
    INTEGERS = "a list of integers"
    COUNTS = "a map of integers to integers"
    BOUNDS = "a map of integers to bytes"
    PARTITION = "a struct of primitive values"
    SUMMARIES = "a list of summaries"


@dataclass(frozen=True)
class Field:
    """A field of a record as the spec has it.

    Attributes:
        field_id: Its id, by which it is found.
        name: Its name, for messages.
        kind: What its values are.
        required: Whether a record without it makes no sense.
        inside: The struct that it is in, if it is not in the record itself.
    """

    field_id: int
    name: str
    kind: Kind
    required: bool = False
    inside: int | None = None


Records = Sequence[Sequence[Any]]
"""The values of some records: a list for each field with one value for each record."""

_SUMMARY = (
    Field(509, "contains_null", Kind.BOOLEAN, required=True),
    Field(518, "contains_nan", Kind.BOOLEAN),
    Field(510, "lower_bound", Kind.BINARY),
    Field(511, "upper_bound", Kind.BINARY),
)


def read_records(
    data: bytes, location: str, fields: tuple[Field, ...], keys: Collection[int] | None = None
) -> Iterator[Records]:
    """The records of an Avro file, some at a time; of a field that the file lacks, all values are None.

    Structs are dicts by field id, and lists of them lists of such dicts.

    Args:
        data: The file.
        location: Where it is.
        fields: What to decode.
        keys: What maps are to have, of what is stored; everything by default.

    Raises:
        CorruptFileError: The file is damaged, lacks a required field, or has one of another type than the spec says.
        UnsupportedError: It is compressed with a codec that is not known, or its schema has too many levels.
    """
    source = MemorySource(data, location=location)
    header = read_header(source)
    if _SCHEMA not in header.metadata:
        raise corrupt(location, "its header has no schema")
    if header.codec not in CODECS:
        message = f"{location} is compressed with {header.codec!r}; known are: {', '.join(CODECS)}"
        raise UnsupportedError(message, location=location)
    layout = _layout(_Request(header.metadata[_SCHEMA], fields, location))
    decoding = Decoding(
        location=location,
        codec=_PLAIN,
        program=layout.program,
        schema=layout.schema,
        positions=False,
        batch_rows=_BATCH_ROWS,
        block_limit=MAX_BLOCK_BYTES,
        decoder=None,
        counters={},
    )
    for batch in decoding.batches(_decompressed(blocks(source, header, None), header, len(data), location), 0):
        yield [column(batch, location, keys) for column in layout.columns]


def _decompressed(stored: Iterator[Block], header: Header, size: int, location: str) -> Iterator[Block]:
    """The blocks before they were compressed, as long as they are no larger than a file of this size can be."""
    bytes_left = max(_MIN_EXPANDED_BYTES, _MAX_EXPANSION * size)
    records_left = max(_MIN_RECORDS, size // _MIN_RECORD_BYTES)
    for block in stored:
        try:
            content = decompress(header.codec, block.payload, min(bytes_left, MAX_BLOCK_BYTES))
        except BlockError as error:
            raise corrupt(location, f"the block at byte {block.offset}: {error}") from error
        bytes_left -= len(content)
        records_left -= block.rows
        if records_left < 0:
            raise corrupt(location, f"it claims more records than its {size} bytes can hold")
        yield replace(block, payload=content)


_Values = Callable[[pa.RecordBatch, str, "Collection[int] | None"], Sequence[Any]]


@dataclass(frozen=True)
class _Request:
    """What to read of a schema. Files of the same schema are decoded alike."""

    schema: bytes
    fields: tuple[Field, ...]
    location: str = field(compare=False)


@dataclass(frozen=True)
class _Layout:
    """How to decode the fields of a file, and how to get the values of each from a batch."""

    program: Program
    schema: pa.Schema
    columns: Sequence[_Values]


@lru_cache(maxsize=64)
def _layout(request: _Request) -> _Layout:
    """How to decode some fields; the manifests of a table share a few schemas."""
    location = request.location
    root = parse_schema(request.schema, location)
    columns = file_columns(root, location, pairs_as_maps=False)
    asked: dict[int, NestedField] = {}
    values = []
    for wanted in request.fields:
        path = _find(columns, wanted, location)
        if path:
            asked[path[0].field.field_id] = _narrowed(path[0].field, path[1:], asked)
            _check_type(path[-1], wanted, location)
        elif wanted.required:
            raise corrupt(location, f"its records have no field {wanted.name} (id {wanted.field_id})")
        values.append(_values(wanted, path))
    chosen = list(asked.values())
    try:
        return _Layout(compile_program(root, columns, chosen), pa.schema(map(arrow_field, chosen)), values)
    except RecursionError:
        raise too_deep(location) from None


def _find(columns: Sequence[Column], wanted: Field, location: str) -> tuple[Column, ...]:
    """The column of a field, after the struct that it is in; nothing if the file lacks it."""
    path: tuple[Column, ...] = ()
    for field_id in (wanted.field_id,) if wanted.inside is None else (wanted.inside, wanted.field_id):
        found = [column for column in columns if column.field.field_id == field_id]
        if not found:
            return ()
        if len(found) > 1:
            raise corrupt(location, f"its records have {len(found)} fields with the id {field_id}")
        path, columns = (*path, found[0]), found[0].children
    return path


def _narrowed(outer: NestedField, inner: Sequence[Column], asked: Mapping[int, NestedField]) -> NestedField:
    """A field with those fields inside that were asked for before, and one more."""
    if not inner:
        return outer
    known = asked.get(outer.field_id)
    before = known.field_type.fields if known and isinstance(known.field_type, StructType) else ()
    return outer.model_copy(update={"field_type": StructType(*before, *(column.field for column in inner))})


def _check_type(column: Column, wanted: Field, location: str) -> None:
    if column.reason is not None or not _TYPES[wanted.kind](column.field.field_type):
        stored = column.reason or f"it is {column.field.field_type}"
        message = f"the field {wanted.name} (id {wanted.field_id}) must be {wanted.kind.value}; {stored}"
        raise corrupt(location, message)
    unreadable = next((each for each in column.children if each.reason is not None), None)
    if wanted.kind is Kind.PARTITION and unreadable is not None:
        raise corrupt(location, f"the partition field {unreadable.field.name!r} is unreadable: {unreadable.reason}")


def _is_integer(kind: IcebergType) -> bool:
    return isinstance(kind, IntegerType | LongType)


def _is_binary(kind: IcebergType) -> bool:
    return isinstance(kind, BinaryType | FixedType)


def _is_map(kind: IcebergType, is_value: Callable[[IcebergType], bool]) -> bool:
    entry = kind.element_type if isinstance(kind, ListType) else None
    return (
        isinstance(entry, StructType)
        and len(entry.fields) == 2
        and _is_integer(entry.fields[0].field_type)
        and is_value(entry.fields[1].field_type)
    )


def _is_partition(kind: IcebergType) -> bool:
    if not isinstance(kind, StructType):
        # A struct without fields is of type unknown.
        return isinstance(kind, UnknownType)
    ids = {each.field_id for each in kind.fields}
    return len(ids) == len(kind.fields) and all(isinstance(each.field_type, PrimitiveType) for each in kind.fields)


def _are_summaries(kind: IcebergType) -> bool:
    if not isinstance(kind, ListType) or not isinstance(kind.element_type, StructType):
        return False
    stored = {each.field_id: each.field_type for each in kind.element_type.fields}
    return all(
        _TYPES[each.kind](stored[each.field_id]) if each.field_id in stored else not each.required for each in _SUMMARY
    )


_TYPES: dict[Kind, Callable[[IcebergType], bool]] = {
    Kind.INTEGER: _is_integer,
    Kind.STRING: lambda kind: isinstance(kind, StringType),
    Kind.BINARY: _is_binary,
    Kind.BOOLEAN: lambda kind: isinstance(kind, BooleanType),
    Kind.INTEGERS: lambda kind: isinstance(kind, ListType) and _is_integer(kind.element_type),
    Kind.COUNTS: lambda kind: _is_map(kind, _is_integer),
    Kind.BOUNDS: lambda kind: _is_map(kind, _is_binary),
    Kind.PARTITION: _is_partition,
    Kind.SUMMARIES: _are_summaries,
}


def _values(wanted: Field, path: tuple[Column, ...]) -> _Values:
    """What takes the values of a field from a batch, as Python's own."""
    if not path:
        return lambda batch, _, __: [None] * batch.num_rows
    names = [column.field.name for column in path]
    convert = _CONVERTERS.get(wanted.kind)
    struct = path[-1].children[0] if wanted.kind is Kind.SUMMARIES else path[-1]
    ids = tuple(column.field.field_id for column in struct.children)

    def values(batch: pa.RecordBatch, location: str, keys: Collection[int] | None) -> Sequence[Any]:
        column: ArrowColumn = batch.column(names[0])
        for name in names[1:]:
            if column.null_count:
                raise corrupt(location, f"a record has no {names[0]}")
            column = column.field(name)
        if wanted.required and column.null_count:
            raise corrupt(location, f"a record has no {wanted.name} (id {wanted.field_id})")
        try:
            return _maps(column, keys) if convert is None else convert(column, ids)
        except _NullError:
            raise corrupt(location, f"a value inside of {wanted.name} (id {wanted.field_id}) is null") from None

    return values


class _NullError(Exception):
    """There is no value where one must be."""


def _primitives(column: ArrowColumn, _ids: Sequence[int] = ()) -> Sequence[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    kind = column.type
    if isinstance(kind, pa.UuidType):
        return [value and UUID(bytes=value) for value in _primitives(column.storage)]
    if pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        return list(column.to_pylist())
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if column.null_count and pa.types.is_primitive(column.type):
        return _with_nulls(column, column.fill_null(0).to_numpy(zero_copy_only=False).tolist())
    return list(column.to_numpy(zero_copy_only=False).tolist())


def _slices(column: ArrowColumn, items: Sequence[Any]) -> Sequence[Sequence[Any] | None]:
    """The part of the items that belongs to each list."""
    return _with_nulls(column, [items[start:end] for start, end in pairwise(column.offsets.to_numpy().tolist())])


def _with_nulls(column: ArrowColumn, values: list[Any], null: Any = None) -> list[Any]:
    if not column.null_count:
        return values
    return [value if there else null for value, there in zip(values, column.is_valid().to_pylist(), strict=True)]


def _integer_lists(column: ArrowColumn, _ids: Sequence[int]) -> Sequence[Any]:
    if column.values.null_count:
        raise _NullError
    return _slices(column, _primitives(column.values))


def _maps(column: ArrowColumn, wanted: Collection[int] | None) -> Sequence[Any]:
    """Dicts. Entries of which the key or the value is null, as BigQuery's manifests may have them, are left out."""
    if column.null_count == len(column):
        return [None] * len(column)
    offsets = column.offsets.to_numpy()
    stored = [column.values.field(place) for place in range(2)]
    chosen = _chosen(column.values, wanted)
    if chosen is not None:
        stored = [each.filter(pa.array(chosen)) for each in stored]
        offsets = np.concatenate([[0], np.cumsum(chosen)])[offsets]
    keys, values = map(_primitives, stored)
    # There are several for each of a million files.
    bounds = list(map(slice, offsets[:-1].tolist(), offsets[1:].tolist()))
    found = list(map(dict, map(zip, map(keys.__getitem__, bounds), map(values.__getitem__, bounds))))
    return _with_nulls(column, found)


def _chosen(entries: ArrowColumn, wanted: Collection[int] | None) -> Any:
    """Which entries of maps are used, one flag for each; None for all of them."""
    key, value = entries.field(0), entries.field(1)
    nulls = [each for each in (entries, key, value) if each.null_count]
    if wanted is None and not nulls:
        return None
    flags = [each.is_valid().to_numpy(zero_copy_only=False) for each in nulls]
    if wanted is not None:
        flags.append(np.isin(key.fill_null(0).to_numpy(zero_copy_only=False), list(wanted)))
    return np.logical_and.reduce(flags)


def _structs(column: ArrowColumn, ids: Sequence[int]) -> Sequence[Any]:
    """Dicts by field id; in those of structs that are null, all values are None."""
    if not ids or pa.types.is_null(column.type):
        return [{} for _ in range(len(column))]
    members = [_primitives(column.field(place)) for place in range(len(ids))]
    found = [dict(zip(ids, values, strict=True)) for values in zip(*members, strict=True)]
    return _with_nulls(column, found, dict.fromkeys(ids))


def _summaries(column: ArrowColumn, ids: Sequence[int]) -> Sequence[Any]:
    elements = column.values
    members = {id_: elements.field(place) for place, id_ in enumerate(ids)}
    if elements.null_count or any(members[each.field_id].null_count for each in _SUMMARY if each.required):
        raise _NullError
    known = {each.field_id: _primitives(members[each.field_id]) for each in _SUMMARY if each.field_id in members}
    rows = zip(*known.values(), strict=True)
    return _slices(column, [dict(zip(known, values, strict=True)) for values in rows])


_CONVERTERS: dict[Kind, Callable[[ArrowColumn, Sequence[int]], Sequence[Any]]] = {
    Kind.INTEGER: _primitives,
    Kind.STRING: _primitives,
    Kind.BINARY: _primitives,
    Kind.BOOLEAN: _primitives,
    Kind.INTEGERS: _integer_lists,
    Kind.PARTITION: _structs,
    Kind.SUMMARIES: _summaries,
}
