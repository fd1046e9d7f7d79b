"""Writes equality-delete files: rows that are deleted wherever they occur."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
)

from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, SchemaResolutionError
from formatkit.io import OutputLocation
from formatkit.registry import FormatRegistry
from formatkit.write.deletes.writing import DeleteFile
from formatkit.write.derive import plain_type
from formatkit.write.incoming import ArrowData, incoming_batches
from formatkit.write.matching import Matcher
from formatkit.write.metrics import metrics_modes

__all__ = ["write_equality_deletes"]

_WITHOUT_EQUALITY = (FloatType, DoubleType, VariantType, GeometryType, GeographyType, UnknownType)


def write_equality_deletes(
    output: OutputLocation,
    rows: ArrowData,
    schema: Schema,
    equality_ids: Sequence[int],
    *,
    file_format: str | None = None,
    properties: Mapping[str, str] | None = None,
    partition: Record | None = None,
    spec_id: int = 0,
    sort_order_id: int | None = None,
    io: FileIO | None = None,
    registry: FormatRegistry | None = None,
) -> DataFile | None:
    """Write one file of equality deletes; a failure leaves no file.

    The rows have the equality columns, and whatever other columns of the schema the caller wants stored with them;
    columns are matched by name. Null deletes the rows in which the column is null.

    Args:
        output: A path, a URI or a pyiceberg `OutputFile`.
        rows: Arrow data from anywhere, as in `write_file`.
        schema: The table's schema.
        equality_ids: The columns that must be equal for a row to be deleted.
        file_format: The format's name; taken from the ending of the location if left out.
        properties: Of the table; `write.delete.parquet.…` wins over `write.parquet.…`.
        partition: The partition in which rows are deleted, in the order of the spec. None if the spec has no fields:
            then they are deleted in all partitions.
        spec_id: The spec of the partition.
        sort_order_id: The table's name for the order of the rows, if they are sorted.
        io: Where to look up locations that are not local; made from the location's scheme if left out.
        registry: Where formats are looked up; those that are installed if left out.

    Returns:
        The file, or None if there were no rows: then nothing is written.

    Raises:
        ConfigurationError: The equality ids are none, repeat, or name a column that rows cannot be compared by.
        SchemaResolutionError: The rows lack an equality column, or have columns that do not fit the schema.
    """
    _check_equality_ids(schema, equality_ids)
    file = DeleteFile.at(output, file_format, properties, io, registry)
    with closing(incoming_batches(rows)) as incoming:
        first = next(incoming, None)
        if first is None:
            return None
        stored = _stored_schema(schema, first.schema, equality_ids)
        matcher = Matcher(stored, file.operations)
        modes = metrics_modes(stored, file.properties)
        metadata = {"delete-type": "equality", "delete-field-ids": ", ".join(map(str, equality_ids))}
        batches = _of_same_columns(itertools.chain((first,), incoming), stored)
        written = file.write(map(matcher.match, batches), stored, metadata, modes)
    if written is None:
        return None
    return written.to_data_file(
        partition=partition,
        spec_id=spec_id,
        sort_order_id=sort_order_id,
        content=DataFileContent.EQUALITY_DELETES,
        equality_ids=equality_ids,
    )


def _check_equality_ids(schema: Schema, equality_ids: Sequence[int]) -> None:
    if not equality_ids:
        raise ConfigurationError("equality deletes need at least one equality id; without one they delete every row")
    repeated = sorted({each for each in equality_ids if list(equality_ids).count(each) > 1})
    if repeated:
        raise ConfigurationError(f"the equality ids {list(equality_ids)} name {repeated} more than once")
    comparable = set(_comparable_ids(schema.fields))
    for each in equality_ids:
        name = schema.find_column_name(each)
        if name is None:
            known = ", ".join(f"{id_} ({schema.find_column_name(id_)})" for id_ in sorted(comparable))
            raise ConfigurationError(f"equality id {each} is no column of the schema; it could be one of {known}")
        if each not in comparable:
            raise ConfigurationError(
                f"rows cannot be compared by column {name!r} (id {each}) of type {schema.find_type(each)}; equality "
                "columns are primitive, neither float nor double, and not inside lists or maps"
            )


def _comparable_ids(fields: Iterable[NestedField]) -> Iterator[int]:
    for field in fields:
        kind = field.field_type
        if isinstance(kind, StructType):
            yield from _comparable_ids(kind.fields)
        elif isinstance(kind, PrimitiveType) and not isinstance(kind, _WITHOUT_EQUALITY):
            yield field.field_id


def _stored_schema(schema: Schema, rows: pa.Schema, equality_ids: Sequence[int]) -> Schema:
    """The columns of the schema that the rows have."""
    stored = Schema(*_present(schema.fields, list(rows)), schema_id=schema.schema_id)
    lacking = [schema.find_column_name(each) for each in equality_ids if stored.find_column_name(each) is None]
    if lacking:
        raise SchemaResolutionError(
            f"the rows have no column {', '.join(map(repr, lacking))}, by which they delete; add it to them, because "
            "as null it would delete rows in which it is null"
        )
    return stored


def _present(fields: Iterable[NestedField], given: list[Any]) -> list[NestedField]:
    arrow = {each.name: plain_type(each.type) for each in given}
    return [_narrowed(field, arrow[field.name]) for field in fields if field.name in arrow]


def _narrowed(field: NestedField, arrow: Any) -> NestedField:
    if not isinstance(field.field_type, StructType) or not pa.types.is_struct(arrow):
        return field
    children = _present(field.field_type.fields, [arrow.field(i) for i in range(arrow.num_fields)])
    return field.model_copy(update={"field_type": StructType(*children)})


def _of_same_columns(batches: Iterable[pa.RecordBatch], stored: Schema) -> Iterator[pa.RecordBatch]:
    """The batches, none of which may lack a column: it would be stored as null, and delete rows where it is null."""
    checked: set[pa.Schema] = set()
    for batch in batches:
        if batch.schema not in checked:
            present = Schema(*_present(stored.fields, list(batch.schema)))
            lacking = [stored.find_column_name(each) for each in sorted(stored.field_ids - present.field_ids)]
            if lacking:
                raise SchemaResolutionError(
                    f"the first rows have the column {', '.join(map(repr, lacking))}, and later ones have not; give "
                    "all rows the same columns"
                )
            checked.add(batch.schema)
        yield batch
