"""pyiceberg's own scan of whole tables in place of formatkit's, for the checks of layer 3.

The kernel takes evolution, defaults and constants off a plugin's hands, so what pyiceberg makes of them can be seen
only here. Files are written by formatkit; those that lack ids are then written again by pyarrow. The wrapper puts
columns into the order in which they were asked for, and gives errors the types that checks look for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import ResolveError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema

from formatkit.contract import BatchStream
from formatkit.errors import (
    ColumnNotFoundError,
    IllegalPromotionError,
    MissingFieldIdsError,
    MissingRequiredFieldError,
    UnsupportedError,
)
from formatkit.tck import Subject, naive
from formatkit.tck.check import Layer
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.scanned import Filter, ScannedTable
from support.idless_files import rewrite_without_ids

__all__ = ["PyicebergScans"]


class PyicebergScans(Subject[pa.RecordBatch]):
    """Tables with files of a format, scanned by pyiceberg."""

    def kit(self, layer: Layer) -> Any:
        kit = super().kit(layer)
        return _Kit(format=kit.format) if layer is Layer.SCAN else kit


@dataclass(frozen=True, kw_only=True)
class _Kit(ScanKit[pa.RecordBatch]):
    """What checks are given.

    Attributes:
        hidden: Ids that files do not store; all of them if None.
    """

    hidden: Collection[int] | None = ()

    def without_ids(self, hidden: Collection[int] | None = None) -> _Kit:
        return replace(self, hidden=hidden)

    def write(self, folder: Path, file: naive.File, name: str) -> naive.File:
        written = super().write(folder, file, name)
        if file.rows and (self.hidden is None or self.hidden):
            rewrite_without_ids(folder / f"{name}.{written.file_format}", self.hidden)
        return written

    @contextmanager
    def built(self, *table: Any, **facts: Any) -> Iterator[ScannedTable[pa.RecordBatch]]:
        with super().built(*table, **facts) as built:
            yield _Table(**{field.name: getattr(built, field.name) for field in fields(built)})


class _Table(ScannedTable[pa.RecordBatch]):
    def scan(self, where: Filter = None, select: Sequence[str] | None = None, **options: Any) -> Any:
        options.pop("batch_rows", None)
        case_sensitive = options.pop("case_sensitive", True)
        if options:
            raise UnsupportedError(f"pyiceberg's scan has no {', '.join(options)}")
        names = [column.name for column in self.schema.fields] if select is None else select
        with _typed_errors():
            scan = self.table.scan(AlwaysTrue() if where is None else where, tuple(names), case_sensitive)
            found = scan.projection()
            bind(self.table.schema(), scan.row_filter, case_sensitive)  # which pyiceberg does later
        return _Scan(_in_order(found, names), scan.to_arrow_batch_reader)

    def scan_file(self, schema: Schema) -> Any:
        tasks = list(self.table.scan().plan_files())
        metadata = self.table.metadata.model_copy(
            update={"schemas": [*self.table.metadata.schemas, schema], "current_schema_id": schema.schema_id}
        )
        scan = ArrowScan(metadata, self.table.io, schema, AlwaysTrue())
        return _Scan(schema, lambda: scan.to_record_batches(tasks))


@dataclass(frozen=True)
class _Scan:
    """As much of a scan as checks use."""

    schema: Schema
    read: Any

    def to_batches(self) -> BatchStream[pa.RecordBatch]:
        with _typed_errors():
            return BatchStream(self._batches(self.read()))

    def _batches(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _typed_errors():
            for batch in found:
                yield batch.select([field.name for field in self.schema.fields])


def _in_order(schema: Schema, names: Sequence[str]) -> Schema:
    """The columns in the order in which they were named; one of which a part was named stands where that does."""
    lowered = [name.lower() for name in names]

    def place(column: str) -> int:
        at = [number for number, name in enumerate(lowered) if name == column or name.startswith(f"{column}.")]
        return at[0] if at else len(lowered)

    return Schema(*sorted(schema.fields, key=lambda field: place(field.name.lower())))


@contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except ResolveError as error:
        kind = MissingRequiredFieldError if "is required" in str(error) else IllegalPromotionError
        raise kind(str(error)) from error
    except ValueError as error:
        if "does not have field-ids" in str(error):
            raise MissingFieldIdsError(str(error)) from error
        if "Could not find column" in str(error) or "case_sensitive=" in str(error):
            raise ColumnNotFoundError(str(error), ()) from error
        raise
