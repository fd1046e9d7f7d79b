"""pyiceberg's scans, read by formatkit: same arguments, same types, same errors for wrong arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
from pyiceberg.exceptions import ResolveError
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression, BoundPredicate
from pyiceberg.expressions.visitors import bind
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import BinaryType, StringType

from formatkit.contract.values import absent_value
from formatkit.errors import IllegalPromotionError, MissingRequiredFieldError
from formatkit.integrations.pyiceberg.arrow_types import conform, no_rows, stream_schema, table_schema
from formatkit.integrations.pyiceberg.filters import arrow_filter
from formatkit.integrations.pyiceberg.offsets import Offsets
from formatkit.integrations.pyiceberg.watching import WatchingRegistry
from formatkit.kernel import bind as bind_exactly
from formatkit.kernel.evaluate import evaluate
from formatkit.kernel.predicates import rewrite
from formatkit.registry import FormatRegistry
from formatkit.scan import Scan, scan

__all__ = ["Rows", "dictionary_names", "exact_filter", "rows_of"]


@dataclass(frozen=True)
class Rows:
    """A scan by formatkit, and the form in which pyiceberg's clients expect its rows.

    Attributes:
        scan: The rows.
        schema: The columns in pyiceberg's order.
        offsets: How the files store the columns; knows it once they are read.
        dictionaries: Names of the columns in dictionary form.
    """

    scan: Scan
    schema: Schema
    offsets: Offsets
    dictionaries: tuple[str, ...] = ()
    _order: list[int] = field(init=False)

    def __post_init__(self) -> None:
        places = {column.field_id: place for place, column in enumerate(self.scan.schema.fields)}
        object.__setattr__(self, "_order", [places[column.field_id] for column in self.schema.fields])

    def to_table(self) -> pa.Table:
        """All rows, as `to_arrow` returns them."""
        with _errors_of_pyiceberg():
            found = self.scan.to_arrow()
        if not found.num_rows:
            return no_rows(self.schema)
        small = self.offsets.small(task.location for task in self.scan.tasks)
        wanted = table_schema(self.schema, self.dictionaries, small.__contains__)
        return pa.Table.from_arrays(conform([found.column(place) for place in self._order], wanted), schema=wanted)

    def to_reader(self) -> pa.RecordBatchReader:
        """A stream, as `to_arrow_batch_reader` returns it."""
        wanted = stream_schema(self.schema, self.dictionaries)
        return pa.RecordBatchReader.from_batches(wanted, self._batches(wanted))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Batches, all with small offsets."""
        return self._batches(table_schema(self.schema, self.dictionaries))

    def _batches(self, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        with _errors_of_pyiceberg(), self.scan.to_batches() as batches:
            for batch in batches:
                columns = conform([batch.column(place) for place in self._order], wanted)
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def rows_of(asked: DataScan, dictionary_columns: Iterable[str], registry: FormatRegistry) -> Rows:
    """What a scan of pyiceberg returns.

    It names columns as they are called now in the filter, and as they were called then in the selection.
    """
    projection = asked.projection()
    snapshot = asked.snapshot()
    schema = asked.update(selected_fields=("*",)).projection()
    dictionaries = dictionary_names(projection, dictionary_columns)
    offsets = Offsets(asked.table_metadata.name_mapping())
    found = scan(
        _table(asked.table_metadata, asked.io, schema, None if snapshot is None else snapshot.snapshot_id),
        where=exact_filter(asked.table_metadata.schema(), schema, asked.row_filter, asked.case_sensitive),
        select=asked.selected_fields,
        limit=None if asked.limit is None else max(asked.limit, 0),
        case_sensitive=asked.case_sensitive,
        dictionary_columns=dictionaries,
        registry=WatchingRegistry(registry, offsets),
    )
    return Rows(found, projection, offsets, dictionaries)


def exact_filter(
    current: Schema, readable: Schema, row_filter: BooleanExpression, case_sensitive: bool
) -> BooleanExpression:
    """The filter, bound to the current schema; what it asks of columns that `readable` lacks is decided."""
    bind(current, row_filter, case_sensitive)  # raises what pyiceberg raises
    present = readable.field_ids if readable is not current else None

    def decide(leaf: BoundPredicate) -> BooleanExpression:
        column = leaf.term.ref().field
        if present is None or column.field_id in present:
            return leaf
        return AlwaysTrue() if evaluate(leaf, absent_value(column, {})) else AlwaysFalse()

    return rewrite(bind_exactly(current, arrow_filter(row_filter), case_sensitive=case_sensitive), decide)


def dictionary_names(schema: Schema, wanted: Iterable[str]) -> tuple[str, ...]:
    """Those columns that exist and can be in dictionary form; pyiceberg ignores the others."""
    able = {column.name for column in schema.fields if isinstance(column.field_type, StringType | BinaryType)}
    return tuple(name for name in wanted if name in able)


@dataclass(frozen=True)
class _View:
    """As much of a table as a scan needs."""

    metadata: TableMetadata
    io: FileIO

    @property
    def metadata_location(self) -> str:
        """What messages call the table by: pyiceberg's scans do not know the metadata file."""
        return self.metadata.location


def _table(metadata: TableMetadata, io: FileIO, schema: Schema, snapshot_id: int | None) -> Table:
    """The table as of a snapshot and with a schema of it."""
    update: dict[str, Any] = {"current_snapshot_id": snapshot_id, "current_schema_id": schema.schema_id}
    return cast("Table", _View(metadata.model_copy(update=update), io))


@contextmanager
def _errors_of_pyiceberg() -> Iterator[None]:
    """Schemas that do not fit raise what pyiceberg's clients catch; formatkit's own error is the cause."""
    try:
        yield
    except MissingRequiredFieldError as error:
        field = getattr(error, "field", "")
        raise ResolveError(f"Field is required, and could not be found in the file: {field}. {error}") from error
    except IllegalPromotionError as error:
        types = getattr(error, "file_type", ""), getattr(error, "table_type", "")
        raise ResolveError(f"Cannot promote {types[0]} to {types[1]}. {error}") from error
