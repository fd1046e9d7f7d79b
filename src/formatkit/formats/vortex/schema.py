"""The columns of Vortex files: in Arrow's terms, and as an Iceberg schema.

Vortex keeps names, types and nullability, and drops everything else that a schema says. Ids, and types that Vortex
lacks, are in the Iceberg schema that the file's seal holds. What is stored in place of them:

    fixed(n)              binary
    geometry, geography   binary
    variant               a struct of the binaries metadata and value
    unknown               nothing; inside lists and maps Vortex's null type
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.file_schema import file_schema
from formatkit.batches.arrow.types import ArrowType, arrow_schema
from formatkit.contract.schema_json import schema_from_json
from formatkit.contract.seal import Seal
from formatkit.errors import SchemaResolutionError, UnsupportedError
from formatkit.formats.vortex.failures import corrupt

__all__ = ["METADATA", "SCHEMA", "Columns", "columns_of", "encoded_schema"]

SCHEMA, METADATA = "iceberg.schema", "metadata"
"""The facts in a seal: the Iceberg schema as JSON, and the key-value pairs of the file."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What a file holds.

    Attributes:
        arrow: The columns as they are decoded: without views, list elements by the name that Iceberg gives them.
        schema: The same as Iceberg's schema.
        unreadable: Why a column cannot be read, by its id.
        metadata: The key-value pairs of the file.
    """

    arrow: pa.Schema
    schema: Schema
    unreadable: Mapping[int, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


def columns_of(dtype: Any, seal: Seal | None, location: str) -> Columns:
    """The columns of a file, given Vortex's type of its rows."""
    if not hasattr(dtype, "names") or dtype.is_nullable():
        message = f"{location}: holds values of type {dtype}, not rows: only Vortex files of structs can be read"
        raise UnsupportedError(message, location=location)
    arrow = pa.schema([_decoded_field(found) for found in dtype.to_arrow_schema()])
    if seal is None:
        foreign = file_schema(arrow, location)
        return Columns(arrow=arrow, schema=foreign.schema, unreadable=foreign.unreadable)
    try:
        schema = schema_from_json(seal.facts[SCHEMA])
        metadata = dict(seal.facts[METADATA])
    except (KeyError, TypeError, ValueError, SchemaResolutionError) as error:
        raise corrupt(location, f"the schema in its seal cannot be read: {error}") from error
    if not encoded_schema(schema).equals(arrow):
        raise corrupt(location, "the schema in its seal is not that of its columns")
    return Columns(arrow=arrow, schema=schema, metadata=metadata)


def encoded_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema that is handed to Vortex for batches of `schema`."""
    return pa.schema([_encoded_field(found) for found in arrow_schema(schema)])


def _encoded_field(found: Any) -> Any:
    return found.with_type(_rebuilt(found.type, _encoded_field, _encoded_leaf))


def _encoded_leaf(found: ArrowType) -> ArrowType:
    return pa.binary() if pa.types.is_fixed_size_binary(found) else found


def _decoded_field(found: Any) -> Any:
    return found.with_type(_rebuilt(found.type, _decoded_field, _decoded_leaf))


def _decoded_leaf(found: ArrowType) -> ArrowType:
    # Small forms cost Vortex nothing; views would have to be copied afterwards.
    if pa.types.is_string_view(found):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(found) else found


def _rebuilt(found: ArrowType, of_field: Any, of_leaf: Any) -> ArrowType:
    if pa.types.is_struct(found):
        return pa.struct([of_field(found.field(i)) for i in range(found.num_fields)])
    if pa.types.is_list(found):
        return pa.list_(of_field(found.value_field).with_name("element"))
    if pa.types.is_map(found):
        return pa.map_(of_field(found.key_field), of_field(found.item_field))
    return of_leaf(found)
