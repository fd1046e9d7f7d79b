"""The data files of pyiceberg's `append`, `overwrite`, `delete` and `upsert`, written by formatkit.

Unlike pyiceberg's own writing this partitions by every transform without pyiceberg-core, streams into partitioned
tables, keeps null lists of structs null, and leaves no file when it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata

from formatkit.errors import UnsupportedError
from formatkit.integrations.pyiceberg.arrow_types import written_schema
from formatkit.integrations.pyiceberg.file_formats import has_foreign_writer
from formatkit.integrations.pyiceberg.offsets import small_columns
from formatkit.integrations.pyiceberg.trust import configured
from formatkit.integrations.pyiceberg.watching import NotingRegistry
from formatkit.kernel.names import column_paths, dotted
from formatkit.registry import FormatRegistry
from formatkit.write import TableWriter

__all__ = ["check_version", "data_files"]

_LAST_VERSION_PYICEBERG_COMMITS = 2


def data_files(
    metadata: TableMetadata,
    rows: pa.Table | pa.RecordBatchReader,
    io: FileIO,
    registry: FormatRegistry,
    by_pyiceberg: Callable[[], Iterable[DataFile]],
) -> Iterator[DataFile]:
    """Write rows, which pyiceberg has found to fit the table; `by_pyiceberg` does it in pyiceberg's way."""
    check_version(metadata)
    given = _schema_of(rows.schema, metadata)
    if given is None or has_foreign_writer(_file_format(metadata)):
        yield from by_pyiceberg()
        return
    noted = written_schema(metadata.schema(), small_columns(given, rows.schema))
    chosen = NotingRegistry(registry, noted) if noted else registry
    with TableWriter(metadata, io, registry=chosen, catalog_properties=configured(metadata)) as writer:
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else rows:
            writer.write(batch)
        yield from writer.close()


def check_version(metadata: TableMetadata) -> None:
    """Refuse what pyiceberg would notice only after the files were written."""
    if metadata.format_version > _LAST_VERSION_PYICEBERG_COMMITS:
        raise UnsupportedError(
            f"pyiceberg cannot commit rows to tables of format version {metadata.format_version}; use "
            "formatkit.append, overwrite, delete or upsert"
        )


def _file_format(metadata: TableMetadata) -> str:
    properties = metadata.properties
    return properties.get(TableProperties.WRITE_FILE_FORMAT, TableProperties.WRITE_FILE_FORMAT_DEFAULT)


def _schema_of(rows: pa.Schema, metadata: TableMetadata) -> Schema | None:
    """The columns of the data, if matching them by name, as formatkit does, is what pyiceberg would do.

    It goes by the ids in the fields' metadata if there are some, and cuts nanoseconds off if it was configured to.
    """
    table = metadata.schema()
    try:
        given = pyarrow_to_schema(rows, name_mapping=table.name_mapping, format_version=metadata.format_version)
    except (TypeError, ValueError):
        return None
    return given if _ids(given).items() <= _ids(table).items() else None


def _ids(schema: Schema) -> dict[str, Any]:
    return {dotted(path): path[-1].field_id for path in column_paths(schema)}
