"""The Arrow types in which pyiceberg hands out rows, which its clients have come to rely on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types as is_type
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

__all__ = ["conform", "no_rows", "stream_schema", "table_schema"]


def table_schema(schema: Schema, dictionaries: Collection[str] = ()) -> pa.Schema:
    """What `to_arrow` returns if there are rows: small offsets, no field ids."""
    return _with_dictionaries(pa.schema([_small_field(field) for field in _declared(schema)]), dictionaries)


def stream_schema(schema: Schema, dictionaries: Collection[str] = ()) -> pa.Schema:
    """What `to_arrow_batch_reader` returns: large offsets, and field ids in the metadata."""
    return _with_dictionaries(schema_to_pyarrow(schema), dictionaries)


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
    return pa.dictionary(pa.int32(), _small(values))


def _small_field(field: Any) -> Any:
    return field.with_type(_small(field.type))


def _small(kind: Any) -> Any:
    """The type with small offsets at every level; pyiceberg's own conversion renames the elements of lists."""
    if is_type.is_large_string(kind):
        return pa.string()
    if is_type.is_large_binary(kind):
        return pa.binary()
    if is_type.is_large_list(kind):
        return pa.list_(_small_field(kind.value_field))
    if is_type.is_map(kind):
        return pa.map_(_small_field(kind.key_field), _small_field(kind.item_field))
    if is_type.is_struct(kind):
        return pa.struct([_small_field(kind.field(place)) for place in range(kind.num_fields)])
    return kind
