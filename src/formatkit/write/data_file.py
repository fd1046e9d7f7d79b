"""A written file as pyiceberg's `DataFile`: what manifests record, bounds in Iceberg's binary form.

All of them have the fields of format version 3, for which pyiceberg's class has room but no names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from formatkit.contract import FileMetrics, MetricsMode, WriteResult
from formatkit.puffin import BlobMetadata

__all__ = ["data_file", "deletion_vector_file"]


def data_file(
    result: WriteResult,
    metrics: FileMetrics,
    modes: Mapping[int, MetricsMode],
    schema: Schema,
    *,
    file_format: str,
    partition: Record | None = None,
    spec_id: int = 0,
    sort_order_id: int | None = None,
    content: DataFileContent = DataFileContent.DATA,
    equality_ids: Sequence[int] | None = None,
    referenced_data_file: str | None = None,
) -> DataFile:
    """Describe a file of rows: a data file or a delete file.

    Args:
        result: What the format knows of the file.
        metrics: What is known of its values.
        modes: The metrics mode by leaf id, which decides whether a column's size is recorded.
        schema: The schema that the file was written with.
        file_format: The format's name.
        partition: The partition values in the order of the spec; None if the table is not partitioned.
        spec_id: The spec of the partition.
        sort_order_id: The order of the rows, if they are sorted; never for position deletes.
        content: What the rows are.
        equality_ids: The columns by which equality deletes compare.
        referenced_data_file: The data file that position deletes are of, if it is a single one.
    """
    columns = metrics.columns
    return _described(
        spec_id,
        content=content,
        file_path=result.location,
        file_format=_file_format(file_format),
        partition=partition,
        record_count=result.row_count,
        file_size_in_bytes=result.size_bytes,
        column_sizes=_recorded_sizes(result, modes),
        value_counts={i: known.value_count for i, known in columns.items() if known.value_count is not None},
        null_value_counts={i: known.null_count for i, known in columns.items() if known.null_count is not None},
        nan_value_counts={i: known.nan_count for i, known in columns.items() if known.nan_count is not None},
        lower_bounds=_encoded(schema, {i: known.lower for i, known in columns.items()}),
        upper_bounds=_encoded(schema, {i: known.upper for i, known in columns.items()}),
        key_metadata=result.key_metadata,
        split_offsets=list(result.split_offsets) if result.split_offsets else None,
        equality_ids=None if equality_ids is None else list(equality_ids),
        sort_order_id=sort_order_id,
        referenced_data_file=referenced_data_file,
    )


def deletion_vector_file(
    location: str,
    size_bytes: int,
    blob: BlobMetadata,
    *,
    cardinality: int,
    referenced_data_file: str,
    partition: Record | None = None,
    spec_id: int = 0,
) -> DataFile:
    """Describe one deletion vector of a Puffin file, which manifests list like a file of its own.

    Args:
        location: The Puffin file.
        size_bytes: Its length.
        blob: Where the vector is in it.
        cardinality: How many rows it deletes.
        referenced_data_file: The data file whose rows they are.
        partition: Of the data file; None if the table is not partitioned.
        spec_id: Of the data file.
    """
    return _described(
        spec_id,
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PUFFIN,
        partition=partition,
        record_count=cardinality,
        file_size_in_bytes=size_bytes,
        referenced_data_file=referenced_data_file,
        content_offset=blob.offset,
        content_size_in_bytes=blob.length,
    )


def _described(spec_id: int, *, partition: Record | None, **fields: Any) -> DataFile:
    described = DataFile.from_args(
        _table_format_version=3, partition=partition if partition is not None else Record(), **fields
    )
    described.spec_id = spec_id
    return described


def _recorded_sizes(result: WriteResult, modes: Mapping[int, MetricsMode]) -> dict[int, int] | None:
    if result.column_sizes is None:
        return None
    return {i: size for i, size in result.column_sizes.items() if i in modes and modes[i].counts}


def _file_format(name: str) -> Any:
    """The member of pyiceberg's closed list, or the name as metadata spells it for formats that it does not know."""
    try:
        return FileFormat(name.upper())
    except ValueError:
        return name.upper()


def _encoded(schema: Schema, bounds: Mapping[int, Any]) -> dict[int, bytes]:
    return {i: to_bytes(_leaf_type(schema, i), bound) for i, bound in bounds.items() if bound is not None}


def _leaf_type(schema: Schema, field_id: int) -> PrimitiveType:
    kind = schema.find_type(field_id)
    assert isinstance(kind, PrimitiveType)  # noqa: S101 - metrics are keyed by leaf
    return kind
