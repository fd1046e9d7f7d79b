"""Writes position-delete files: which rows of which data files are deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.typedef import Record

from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract import DEFAULT_BATCH_ROWS, ColumnMetrics, FileMetrics, MetricsKind, MetricsMode
from formatkit.contract.batch import Longs
from formatkit.contract.metadata_columns import POSITION_DELETES
from formatkit.errors import ConfigurationError
from formatkit.io import OutputLocation
from formatkit.puffin import row_positions
from formatkit.registry import FormatRegistry
from formatkit.write.deletes.writing import DeleteFile

__all__ = ["write_position_deletes"]

_METADATA = {"delete-type": "position"}
_MODES = {field.field_id: MetricsMode(MetricsKind.FULL) for field in POSITION_DELETES.fields}
"""Whatever the table's properties say, because planning finds data files by the bounds of their paths."""


def write_position_deletes(
    output: OutputLocation,
    positions: Mapping[str, ArrayLike],
    *,
    file_format: str | None = None,
    properties: Mapping[str, str] | None = None,
    partition: Record | None = None,
    spec_id: int = 0,
    io: FileIO | None = None,
    registry: FormatRegistry | None = None,
) -> DataFile:
    """Write one file of position deletes; a failure leaves no file.

    Rows are sorted by the data file's location and then by position, each once.

    Args:
        output: A path, a URI or a pyiceberg `OutputFile`.
        positions: By the location of a data file, exactly as the table spells it: the positions of its deleted rows, in
            any order. All data files are of one partition.
        file_format: The format's name; taken from the ending of the location if left out.
        properties: Of the table; `write.delete.parquet.…` wins over `write.parquet.…`.
        partition: The partition values of the data files in the order of the spec; None if it has no fields.
        spec_id: The spec of the partition.
        io: Where to look up locations that are not local; made from the location's scheme if left out.
        registry: Where formats are looked up; those that are installed if left out.

    Raises:
        ConfigurationError: There are no positions.
        InvalidDataError: A position is no whole number or out of range.
    """
    file = DeleteFile.at(output, file_format, properties, io, registry)
    by_path = {path: found for path in sorted(positions) if len(found := row_positions(positions[path]))}
    written = file.write(_batches(list(by_path), list(by_path.values())), POSITION_DELETES, _METADATA, _MODES)
    if written is None:
        raise ConfigurationError(f"there is no position to write to {file.sink.location}; write no file then")
    recorded = replace(written, metrics=_recorded(written.metrics, len(by_path)))
    return recorded.to_data_file(
        partition=partition,
        spec_id=spec_id,
        content=DataFileContent.POSITION_DELETES,
        referenced_data_file=next(iter(by_path)) if len(by_path) == 1 else None,
    )


def _batches(paths: list[str], positions: list[Longs]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of bounded size, however the positions are spread over the files."""
    if not paths:
        return
    every = np.concatenate(positions)
    which = np.repeat(np.arange(len(paths)), [len(each) for each in positions])
    names = pa.array(paths, pa.string())
    schema = arrow_schema(POSITION_DELETES)
    for start in range(0, len(every), DEFAULT_BATCH_ROWS):
        rows = slice(start, start + DEFAULT_BATCH_ROWS)
        columns: list[Any] = [names.take(pa.array(which[rows], pa.int64())), pa.array(every[rows], pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _recorded(metrics: FileMetrics, data_files: int) -> FileMetrics:
    """Bounds only if they tell the one data file exactly, and never counts, which the number of rows says already."""
    columns: dict[int, ColumnMetrics] = {}
    if data_files == 1:
        columns = {i: ColumnMetrics(lower=known.lower, upper=known.upper) for i, known in metrics.columns.items()}
    return replace(metrics, columns=columns)
