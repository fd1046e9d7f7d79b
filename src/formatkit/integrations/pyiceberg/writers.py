"""A data file that pyiceberg asks for, written by formatkit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.io import OutputFile
from pyiceberg.io.fileformat import DataFileStatistics, FileFormatWriter
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.typedef import Properties
from pyiceberg.types import PrimitiveType

from formatkit.errors import InvalidDataError
from formatkit.registry import FormatRegistry
from formatkit.write import write_file

__all__ = ["DataFileWriter"]


class DataFileWriter(FileFormatWriter):
    """Writes when it is closed: pyiceberg hands over the rows of a file in one piece and keeps them until then."""

    def __init__(
        self, output: OutputFile, schema: Schema, properties: Properties, file_format: str, registry: FormatRegistry
    ) -> None:
        self._output = output
        self._schema = schema
        self._properties = properties
        self._file_format = file_format
        self._registry = registry
        self._rows: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        self._rows.append(table)

    def close(self) -> DataFileStatistics:
        if self._result is None:
            written = write_file(
                self._output,
                self._rows,
                self._schema,
                self._file_format,
                properties=self._properties,
                overwrite=True,
                registry=self._registry,
            )
            if written is None:
                raise InvalidDataError(f"Cannot close a writer that was never written to: {self._output.location}")
            self._rows.clear()
            self._result = _statistics(written.to_data_file(), self._schema)
        return self._result

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        # pyiceberg closes a writer that failed, which would leave a file that nobody knows of.
        if kind is None:
            self.close()


@dataclass(frozen=True)
class _Bounds:
    """The least and the greatest value of a column, for what pyiceberg has an aggregator of Parquet's statistics."""

    kind: PrimitiveType
    lower: bytes | None
    upper: bytes | None

    @property
    def current_min(self) -> Any:
        return None if self.lower is None else from_bytes(self.kind, self.lower)

    @property
    def current_max(self) -> Any:
        return None if self.upper is None else from_bytes(self.kind, self.upper)

    def min_as_bytes(self) -> bytes | None:
        return self.lower

    def max_as_bytes(self) -> bytes | None:
        return self.upper


def _statistics(file: DataFile, schema: Schema) -> DataFileStatistics:
    bounds = {
        field_id: _Bounds(
            cast("PrimitiveType", schema.find_type(field_id)),
            file.lower_bounds.get(field_id),
            file.upper_bounds.get(field_id),
        )
        for field_id in file.lower_bounds.keys() | file.upper_bounds.keys()
    }
    return DataFileStatistics(
        record_count=file.record_count,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_value_counts=file.null_value_counts,
        nan_value_counts=file.nan_value_counts,
        column_aggregates=cast("Any", bounds),
        split_offsets=cast("list[int]", file.split_offsets),
    )
