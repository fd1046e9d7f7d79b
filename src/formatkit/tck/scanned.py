"""A table on disk, the scans of it, and the truth about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import NestedField, StructType

from formatkit.contract.metadata_columns import METADATA_COLUMNS, partition_column
from formatkit.registry import FormatRegistry
from formatkit.scan import Scan, read_file, scan
from formatkit.tck import expect, naive

if TYPE_CHECKING:
    from formatkit.tck.kits import BatchKit

__all__ = ["ScannedTable", "as_expression"]

B = TypeVar("B")

Filter = str | BooleanExpression | None


def as_expression(where: Filter) -> BooleanExpression:
    """The filter as the naive evaluator takes it."""
    return AlwaysTrue() if where is None else parse(where) if isinstance(where, str) else where


@dataclass(frozen=True, kw_only=True)
class ScannedTable(Generic[B]):
    """A table whose files hold what is known row by row.

    Attributes:
        table: As pyiceberg has it.
        schema: Its current schema.
        specs: All its partition specs.
        files: Its files, with their locations.
        batches: The batch type of scans.
        registry: Where scans find formats.
    """

    table: StaticTable
    schema: Schema
    specs: Sequence[PartitionSpec]
    files: Sequence[naive.File]
    batches: BatchKit[B]
    registry: FormatRegistry

    def scan(self, where: Filter = None, select: Sequence[str] | None = None, **options: Any) -> Scan[B]:
        """A scan with `options`, which are keywords of `formatkit.scan`; all columns of the table if none are named."""
        names = [column.name for column in self.schema.fields] if select is None else select
        return scan(self.table, where, names, registry=self.registry, batch_type=self._batch_type, **options)

    def scan_file(self, schema: Schema) -> Scan[B]:
        """A scan of the first file alone, as a schema that no table can have."""
        return read_file(
            self.files[0].location,
            schema=schema,
            registry=self.registry,
            file_format=self.files[0].file_format,
            batch_type=self._batch_type,
        )

    def rows(self, scan: Scan[B], output: Schema | None = None) -> list[naive.Row]:
        """What a scan returns, keyed by the ids of `output`, whose columns are those of the scan."""
        with scan.to_batches() as batches:
            return [row for batch in batches for row in self.batches.rows(output or scan.schema, batch)]

    def compare(self, where: Filter = None, select: Sequence[str] | None = None, **options: Any) -> None:
        """Scan, and compare rows, order and values with the naive evaluator.

        Args:
            where: The filter.
            select: Names of columns, of parts of structs (``a.b``) and of metadata columns.
            options: Keywords of `formatkit.scan`.
        """
        found = self.rows(self.scan(where, select, **options), self._output(select))
        expect.equal_rows(found, self.expected(where, select), f"rows where {where}" if where is not None else "rows")

    def expected(self, where: Filter = None, select: Sequence[str] | None = None) -> list[naive.Row]:
        """What a scan must return, by the naive evaluator."""
        return naive.read(self.files, self._everything, as_expression(where), self._output(select))

    @property
    def _batch_type(self) -> type[B]:
        return self.batches.operations.batch_type

    @property
    def _everything(self) -> Schema:
        """The table's columns, and after them the metadata columns whose names they do not take."""
        taken = {column.name for column in self.schema.fields}
        return Schema(
            *self.schema.fields, *(column for column in self._metadata_columns.values() if column.name not in taken)
        )

    @property
    def _metadata_columns(self) -> dict[str, NestedField]:
        if not any(spec.fields for spec in self.specs):
            return METADATA_COLUMNS
        # The types of partition fields whose source was dropped are in no schema that is at hand.
        sources = {field_id for spec in self.specs for field_id in (part.source_id for part in spec.fields)}
        if not sources <= self.schema.field_ids:
            return METADATA_COLUMNS
        parts = {part.field_id: part for spec in self.specs for part in spec.partition_type(self.schema).fields}
        return METADATA_COLUMNS | {"_partition": partition_column(StructType(*parts.values()))}

    def _output(self, select: Sequence[str] | None) -> Schema:
        if select is None:
            return self.schema
        everything = self._everything
        chosen = {column.field_id: column for column in everything.select(*select).fields}
        wanted = dict.fromkeys(_top_level(everything, name) for name in select)
        return Schema(*(chosen[field_id] for field_id in wanted))


def _top_level(schema: Schema, name: str) -> int:
    """The id of the top-level column that a name, which may lead into a struct, belongs to."""
    by_name = {column.name: column.field_id for column in schema.fields}
    return by_name[name] if name in by_name else by_name[name.partition(".")[0]]
