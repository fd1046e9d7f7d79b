"""The Arrow types in which pyiceberg hands out rows, which its clients have come to rely on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as is_type
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField

from formatkit.integrations.pyiceberg.offsets import ColumnPath, children

__all__ = ["conform", "no_rows", "stream_schema", "table_schema", "written_schema"]

_IsSmall = Callable[[ColumnPath], bool]


def table_schema(schema: Schema, dictionaries: Collection[str] = (), is_small: _IsSmall = lambda _: True) -> pa.Schema:
    """What `to_arrow` returns if there are rows: no field ids, and small offsets where files store the column so."""
    return _with_dictionaries(_offsets(_declared(schema), schema, is_small), dictionaries)


def stream_schema(schema: Schema, dictionaries: Collection[str] = ()) -> pa.Schema:
    """What `to_arrow_batch_reader` returns: large offsets, and field ids in the metadata."""
    return _with_dictionaries(schema_to_pyarrow(schema), dictionaries)


def written_schema(schema: Schema, small: Collection[ColumnPath]) -> pa.Schema | None:
    """What a file must note so that Arrow reads its columns in other than the usual types, if there is a need."""
    usual = _offsets(schema_to_pyarrow(schema), schema, lambda _: True)
    wanted = _offsets(schema_to_pyarrow(schema), schema, small.__contains__)
    return None if wanted.types == usual.types else wanted


def no_rows(schema: Schema) -> pa.Table:
    """What `to_arrow` returns if there are no rows."""
    return _declared(schema).empty_table()


def conform(columns: Sequence[Any], wanted: pa.Schema) -> list[Any]:
    """The columns in the wanted types; most have them already."""
    pairs = zip(columns, wanted, strict=True)
    return [column if column.type == field.type else column.cast(field.type) for column, field in pairs]


def _declared(schema: Schema) -> pa.Schema:
    return schema_to_pyarrow(schema, include_field_ids=False)


def _with_dictionaries(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    return pa.schema([field.with_type(_dictionary(field.type)) if field.name in names else field for field in schema])


def _dictionary(values: Any) -> Any:
    """As Parquet files give them: small offsets, whatever the other columns have."""
    is_text = is_type.is_string(values) or is_type.is_large_string(values)
    return pa.dictionary(pa.int32(), pa.string() if is_text else pa.binary())


def _offsets(arrow: pa.Schema, schema: Schema, is_small: _IsSmall) -> pa.Schema:
    pairs = zip(arrow, children(schema.as_struct(), ()), strict=True)
    return pa.schema([_column(field, declared, path, is_small) for field, (path, declared) in pairs])


def _column(arrow: Any, field: NestedField, path: ColumnPath, is_small: _IsSmall) -> Any:
    return arrow.with_type(_type(arrow.type, field.field_type, path, is_small))


def _type(kind: Any, declared: IcebergType, path: ColumnPath, is_small: _IsSmall) -> Any:
    """The type with small offsets where they are wanted; pyiceberg's own conversion renames the elements of lists."""
    small = is_small(path)
    if is_type.is_large_string(kind):
        return pa.string() if small else kind
    if is_type.is_large_binary(kind):
        return pa.binary() if small else kind
    below = children(declared, path)
    if is_type.is_large_list(kind):
        element = _column(kind.value_field, below[0][1], below[0][0], is_small)
        return pa.list_(element) if small else pa.large_list(element)
    if is_type.is_map(kind):
        entry = zip((kind.key_field, kind.item_field), below, strict=True)
        return pa.map_(*(_column(arrow, field, place, is_small) for arrow, (place, field) in entry))
    if is_type.is_struct(kind) and below:
        pairs = zip((kind.field(place) for place in range(kind.num_fields)), below, strict=True)
        return pa.struct([_column(arrow, field, place, is_small) for arrow, (place, field) in pairs])
    return kind
