"""Puts a scan together: binds the filter, plans, finds plugins, and cuts the work into tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, NestedField, StringType

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract.batch import DataBatch
from formatkit.contract.capability import Capability
from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import DELETED, PARTITION_ID
from formatkit.contract.storage import ByteSource
from formatkit.errors import ConfigurationError
from formatkit.kernel import FileRequest, bind
from formatkit.kernel.request import asks_for
from formatkit.scan.deletes import KeySchemas
from formatkit.scan.options import ScanOptions
from formatkit.scan.plan import Plan
from formatkit.scan.reading import TaskReader, plugins_for
from formatkit.scan.scan import Scan
from formatkit.scan.select import column_ids, readable_schema, select_columns
from formatkit.scan.splits import split_tasks
from formatkit.scan.tasks import DeleteFile, FileTask

__all__ = ["build_scan"]

B = TypeVar("B")


def build_scan(
    options: ScanOptions[B],
    schema: Schema,
    *,
    make_plan: Callable[[BooleanExpression], Plan],
    open_source: Callable[[FileTask | DeleteFile], ByteSource],
    owns_sources: bool = True,
    partition: NestedField | None = None,
    older_schemas: Sequence[Schema] = (),
    **request: Any,
) -> Scan[B]:
    """A scan of whatever `make_plan` finds.

    Args:
        options: What the caller wants.
        schema: The table's columns.
        make_plan: From the bound filter to whole files.
        open_source: From a task or a delete file to its bytes.
        owns_sources: Whether what `open_source` returns is closed after use.
        partition: The column `_partition`, if there is one.
        older_schemas: Where columns of equality deletes are looked for that `schema` lacks, first to last.
        request: What else is asked of every file: fields of `FileRequest`.
    """
    readable = readable_schema(schema, partition)
    case_sensitive = options.case_sensitive
    predicate: BooleanExpression = AlwaysTrue()
    if options.where is not None:
        predicate = bind(readable, options.where, case_sensitive=case_sensitive)
    output = select_columns(readable, schema, options.select, case_sensitive=case_sensitive)
    dictionary_columns = column_ids(readable, options.dictionary_columns, case_sensitive=case_sensitive)
    _check_dictionary_columns(readable, dictionary_columns)

    plan = make_plan(predicate)
    plugins = plugins_for(plan.tasks, options.formats, options.batch_type)
    splittable = {name for name, plugin in plugins.items() if Capability.SPLIT in plugin.capabilities}
    tuning = options.tuning
    plan = replace(plan, tasks=split_tasks(plan.tasks, splittable, tuning.threads))
    reader = TaskReader(
        plugins=plugins,
        operations=_operations(options, dictionary_columns),
        open_source=open_source,
        owns_sources=owns_sources,
        keys=KeySchemas((schema, *older_schemas)),
        partition_positions=_partition_positions(output, partition),
        request=FileRequest(
            schema=output,
            predicate=predicate,
            location="",
            table_schema=schema,
            prefer_partition_constants=options.prefer_partition_constants,
            batch_rows=_batch_rows(options),
            dictionary_columns=dictionary_columns,
            keep_deleted=asks_for(DELETED, output, predicate),
            **request,
        ),
    )
    return Scan(plan, reader, tuning, options.limit)


def _operations(options: ScanOptions[B], dictionary_columns: frozenset[int]) -> DataBatch[B]:
    if dictionary_columns and options.batch_type is pa.RecordBatch:
        return cast("DataBatch[B]", ArrowBatch(dictionary_columns))
    return options.formats.batches(options.batch_type)


def _partition_positions(output: Schema, partition: NestedField | None) -> tuple[int, ...]:
    """Where in the whole partition the selected parts of it are."""
    selected = next((field for field in output.fields if field.field_id == PARTITION_ID), None)
    if partition is None or selected is None:
        return ()
    positions = {child.field_id: position for position, child in enumerate(child_fields(partition.field_type))}
    return tuple(positions[child.field_id] for child in child_fields(selected.field_type))


def _batch_rows(options: ScanOptions[B]) -> int:
    """Without a filter no more rows are decoded than are returned."""
    if options.limit and options.where is None:
        return min(options.batch_rows, options.limit)
    return options.batch_rows


def _check_dictionary_columns(schema: Schema, field_ids: frozenset[int]) -> None:
    for field in schema.fields:
        if field.field_id in field_ids and not isinstance(field.field_type, StringType | BinaryType):
            message = f"only string and binary columns have a dictionary form; {field.name!r} is {field.field_type}"
            raise ConfigurationError(message)
