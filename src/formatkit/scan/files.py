"""`read_file`: the rows of one file that belongs to no table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from formatkit.contract.format import FormatFile
from formatkit.contract.options import DEFAULT_BATCH_ROWS, OpenOptions
from formatkit.contract.storage import ByteSource
from formatkit.errors import FormatNotRegisteredError
from formatkit.io import InputLocation, IoRuntime, open_source
from formatkit.kernel import MissingIds
from formatkit.kernel.bind import columns_of
from formatkit.kernel.names import column_paths
from formatkit.kernel.resolve import foreign_ids, renumbered
from formatkit.registry import FormatRegistry
from formatkit.scan.build import build_scan
from formatkit.scan.options import DEFAULT_BUFFER_BYTES, ScanOptions
from formatkit.scan.plan import Plan
from formatkit.scan.scan import Scan
from formatkit.scan.select import readable_schema
from formatkit.scan.sources import OneFile
from formatkit.scan.tasks import FileTask
from formatkit.scan.unreadable import refuse_unreadable

__all__ = ["read_file"]

if TYPE_CHECKING:
    import typing_extensions

    B = typing_extensions.TypeVar("B", default=pa.RecordBatch)
else:
    B = TypeVar("B")

_MAGIC_LENGTH = 16


def read_file(
    path_or_input: InputLocation,
    where: str | BooleanExpression | None = None,
    select: str | Iterable[str] = ("*",),
    schema: Schema | None = None,
    limit: int | None = None,
    case_sensitive: bool = True,
    registry: FormatRegistry | None = None,
    *,
    file_format: str | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    threads: int | None = None,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    dictionary_columns: str | Iterable[str] = (),
    missing_ids: MissingIds = "by-name",
    properties: Mapping[str, str] | None = None,
    batch_type: type[B] = pa.RecordBatch,  # type: ignore[assignment]  # the default of B
    runtime: IoRuntime | None = None,
) -> Scan[B]:
    """Plan a scan of one file. Reads the file's description; rows are read when they are asked for.

    Args:
        path_or_input: A path, a URI, a pyiceberg `InputFile`, bytes, or a `ByteSource`, which stays the caller's.
        where: Which rows; as in `scan`.
        select: Which columns; as in `scan`, but for ``_partition``.
        schema: The columns to read the file as. The file is evolved to it by field id, or by name if it stores no ids.
            By default the file's own columns.
        limit: The most rows to return; reading stops there.
        case_sensitive: Whether case matters in names.
        registry: Where formats are looked up; everything that is installed by default.
        file_format: The format; by default the ending of the name or the first bytes tell.
        batch_rows: The most rows of a batch.
        threads: How many parts of the file to read side by side; by default one a processor, 8 at most.
        buffer_bytes: How much decoded data may wait for the consumer when several threads read.
        dictionary_columns: String and binary columns that are wanted in dictionary form.
        missing_ids: How columns are told when a schema is given and the file stores no ids.
        properties: For the reader; ``read.verify-skipping`` as in `scan`.
        batch_type: What batches are made of.
        runtime: Where storage calls run; by default the current one.

    Raises:
        FormatNotRegisteredError: The format cannot be told, or is not installed.
        CorruptFileError: The file is not what its name or its first bytes say.
        UnsupportedError: A column that is asked for has a type that Iceberg lacks.
    """
    options = ScanOptions(
        batch_type=batch_type,
        where=where,
        select=select,
        limit=limit,
        case_sensitive=case_sensitive,
        registry=registry,
        batch_rows=batch_rows,
        threads=threads,
        buffer_bytes=buffer_bytes,
        dictionary_columns=dictionary_columns,
        missing_ids=missing_ids,
        properties=properties or {},
        runtime=runtime,
    )
    source = open_source(path_or_input, runtime=options.io_runtime)
    lent = source is path_or_input
    try:
        name = (file_format or _detect(source, options.formats)).lower()
        plugin = options.formats.plugin(name, batch_type)
        file = plugin.reader().open(source, OpenOptions(properties=options.properties))
        try:
            task = _whole_file(source, file, name)
            foreign = foreign_ids(file.schema)
            own_schema = renumbered(file.schema, foreign) if foreign else file.schema
            unreadable = {foreign.get(field_id, field_id): reason for field_id, reason in file.unreadable.items()}
        finally:
            file.close()
    finally:
        if not lent:
            source.close()
    if schema is not None:
        # It says what each column is to be.
        unreadable = {}
    elif _has_ids(own_schema):
        schema = own_schema
    else:
        # Fresh ids stand at the same places as the file's columns, so no name needs to be unique.
        schema, missing_ids = assign_fresh_schema_ids(own_schema), "by-position"
        fresh_ids = dict(zip(_field_ids(own_schema), _field_ids(schema), strict=True))
        unreadable = {fresh_ids[field_id]: reason for field_id, reason in unreadable.items()}
    scan = build_scan(
        options,
        schema,
        make_plan=lambda predicate: Plan(
            tasks=(replace(task, residual=predicate),), predicate=predicate, table=task.location, files=1
        ),
        open_source=OneFile(path_or_input, options.io_runtime),
        owns_sources=not lent,
        missing_ids=missing_ids,
        properties=options.properties,
        returns_stored_lineage=True,
    )
    if unreadable:
        asked = set(_field_ids(scan.schema))
        if where is not None:
            asked |= columns_of(readable_schema(schema), where, case_sensitive=case_sensitive)
        refuse_unreadable(task.location, schema, unreadable, asked)
    return scan


def _detect(source: ByteSource, registry: FormatRegistry) -> str:
    try:
        return registry.detect(source.location)
    except FormatNotRegisteredError:
        return registry.detect(source.location, bytes(source.read(0, min(source.size(), _MAGIC_LENGTH))))


def _whole_file(source: ByteSource, file: FormatFile[B], file_format: str) -> FileTask:
    return FileTask(
        location=source.location,
        file_format=file_format,
        size_bytes=source.size(),
        row_count=file.row_count,
        split_offsets=tuple(file.split_offsets),
    )


def _has_ids(schema: Schema) -> bool:
    return any(field_id >= 0 for field_id in _field_ids(schema))


def _field_ids(schema: Schema) -> Iterator[int]:
    return (path[-1].field_id for path in column_paths(schema))
