"""What checks are given: the thing under test, and the few verbs that every check needs.

Truth never comes from here. Rows go in and come out as `formatkit.tck.naive` holds them, predicates that are left over
are applied one row at a time, and files are plain bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable

from formatkit.contract import (
    DataBatch,
    FormatFile,
    FormatPlugin,
    OpenOptions,
    ReadOptions,
    Split,
    WriteOptions,
    WriteResult,
)
from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind
from formatkit.registry import FormatRegistry
from formatkit.scan import Scan, scan
from formatkit.tck import expect, naive
from formatkit.tck.rows import from_arrow, to_arrow
from formatkit.tck.tables import make_table

__all__ = ["SMALL_CHUNKS", "BatchKit", "Bridge", "FormatKit", "Profile", "ScanKit", "Stored", "bridge_for"]

B = TypeVar("B")

# Makes the shipped formats write many chunks for few rows. Plugins ignore what they do not know.
SMALL_CHUNKS: Mapping[str, str] = {
    "write.parquet.row-group-limit": "3",
    "write.parquet.page-row-limit": "2",
    "write.orc.stripe-size-bytes": "1",
    "write.avro.block-size-bytes": "32",
}


@dataclass(frozen=True)
class Bridge(Generic[B]):
    """How batches of a type are made of Arrow's, and looked at as Arrow's."""

    from_arrow: Callable[[pa.RecordBatch], B]
    to_arrow: Callable[[B], pa.Table | pa.RecordBatch]


def bridge_for(batch_type: type[B]) -> Bridge[B]:
    """The bridge of a batch type that speaks Arrow's stream interface both ways, as most frames do."""
    if batch_type is pa.RecordBatch:
        return Bridge(lambda batch: batch, lambda batch: batch)  # type: ignore[arg-type, return-value]
    make: Any = batch_type
    return Bridge(lambda batch: make(pa.Table.from_batches([batch])), pa.table)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How hard to try: examples of each random check, and whether they are the same in every run."""

    examples: int = 20
    repeatable: bool = True

    def random(self, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        """Run the decorated function at once, on random examples; what it raises carries the smallest one."""

        def run(function: Callable[..., None]) -> None:
            quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
            chosen = settings(
                max_examples=self.examples,
                derandomize=self.repeatable,
                database=None,
                deadline=None,
                suppress_health_check=quiet,
                phases=[Phase.generate, Phase.shrink],
                report_multiple_bugs=False,
            )
            chosen(given(*strategies)(function))()

        return run


@dataclass(frozen=True, kw_only=True)
class BatchKit(Generic[B]):
    """A batch type under test."""

    operations: DataBatch[B]
    bridge: Bridge[B]
    profile: Profile = field(default_factory=Profile)

    def batch(self, schema: Schema, rows: Sequence[naive.Row]) -> B:
        """One batch of the rows."""
        table = to_arrow(schema, rows, ids=False).combine_chunks()
        empty = pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], schema=table.schema)
        return self.bridge.from_arrow(table.to_batches()[0] if rows else empty)

    def rows(self, schema: Schema, batch: B) -> list[naive.Row]:
        """The rows of a batch."""
        return from_arrow(schema, self.bridge.to_arrow(batch))

    def random(self, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        return self.profile.random(*strategies)


@dataclass(frozen=True)
class Stored:
    """A file that a plugin wrote: its bytes, what the plugin said of it, and what it must hold."""

    data: bytes
    result: WriteResult
    schema: Schema
    rows: Sequence[naive.Row]


@dataclass(frozen=True, kw_only=True)
class FormatKit(Generic[B]):
    """A format under test, with the batch type of its plugin."""

    plugin: FormatPlugin[B]
    batches: BatchKit[B]
    small_chunks: Mapping[str, str] = field(default_factory=lambda: SMALL_CHUNKS)

    def write(
        self,
        schema: Schema,
        rows: Sequence[naive.Row],
        *,
        batch_rows: int = 3,
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Stored:
        """Write the rows, of which there must be one at least, in chunks as small as the format makes them."""
        sink = MemorySink(location="memory:checked")
        options = WriteOptions(
            schema=schema, properties={**self.small_chunks, **(properties or {})}, metadata=metadata or {}
        )
        with self.plugin.writer().open(sink, options) as writer:
            for start in range(0, len(rows), batch_rows):
                writer.write(self.batches.batch(schema, rows[start : start + batch_rows]))
            result = writer.close()
        if result is None or sink.data is None:
            raise AssertionError(f"{len(rows)} rows were written, but there is no file")
        return Stored(sink.data, result, schema, rows)

    @contextmanager
    def opened(self, data: bytes, options: OpenOptions | None = None) -> Iterator[FormatFile[B]]:
        """The file behind the bytes; closed at the end of the block."""
        source = MemorySource(data, location="memory:checked")
        file = self.plugin.reader().open(source, options or OpenOptions())
        try:
            yield file
        finally:
            file.close()
            source.close()

    def read(self, file: FormatFile[B], options: ReadOptions, schema: Schema | None = None) -> list[naive.Row]:
        """The rows that are left when the residual was applied, one row at a time.

        They are keyed by the ids of `schema`, whose columns are those of the projection; by the projection's own if
        it is left out.
        """
        result = file.read(options)
        found: list[naive.Row] = []
        with result.batches as batches:
            for batch in batches:
                found += self._checked(batch, options, result.residual, schema or options.projection)
        return found

    def _checked(self, batch: B, options: ReadOptions, residual: BooleanExpression, schema: Schema) -> list[naive.Row]:
        rows = self.batches.operations.num_rows(batch)
        if rows > options.batch_rows:
            raise AssertionError(f"a batch has {rows} rows, but at most {options.batch_rows} were asked for")
        if not options.projection.fields:
            return [{} for _ in range(rows)]
        arrow = self.batches.bridge.to_arrow(batch)
        own = from_arrow(options.projection, arrow)
        named = from_arrow(schema, arrow)
        return [row for row, seen in zip(named, own, strict=True) if naive.matches(seen, options.projection, residual)]

    def everything(
        self,
        stored: Stored,
        predicate: BooleanExpression | None = None,
        *,
        split: Split | None = None,
        batch_rows: int = 1000,
        extra: Sequence[Any] = (),
    ) -> list[naive.Row]:
        """All columns of a stored file, and the metadata columns in `extra`."""
        with self.opened(stored.data) as file:
            options = ReadOptions(
                projection=Schema(*file.schema.fields, *extra),
                predicate=bind(file.schema, predicate or AlwaysTrue()),
                split=split,
                batch_rows=batch_rows,
            )
            return self.read(file, options, Schema(*stored.schema.fields, *extra))

    def random(self, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        return self.batches.profile.random(*strategies)


@dataclass(frozen=True, kw_only=True)
class ScanKit(Generic[B]):
    """A format with its batch type, inside real tables."""

    format: FormatKit[B]

    @property
    def registry(self) -> FormatRegistry:
        """A registry that knows nothing but what is under test."""
        registry = FormatRegistry()
        registry.register(self.format.plugin)
        registry.register_batch(self.format.batches.operations)
        return registry

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A place for a table; gone at the end of the block."""
        with TemporaryDirectory(prefix="formatkit-tck-") as name:
            yield Path(name)

    def write(self, folder: Path, file: naive.File, name: str) -> naive.File:
        """Put a file of the format into the folder; a file without rows is left out, as writers leave it out."""
        path = folder / f"{name}.{self.format.plugin.file_format}"
        if file.rows:
            path.write_bytes(self.format.write(file.schema, file.rows).data)
        return replace(file, location=path.absolute().as_uri(), file_format=self.format.plugin.file_format)

    def table(
        self, folder: Path, schemas: Sequence[Schema], files: Sequence[naive.File], **facts: Any
    ) -> tuple[StaticTable, list[naive.File]]:
        """A table of one snapshot, and its files with their locations. `facts` are those of `make_table`."""
        written = [self.write(folder, file, f"file-{number}") for number, file in enumerate(files)]
        return make_table(folder, schemas, [file for file in written if file.rows], **facts), written

    def rows(self, scan: Scan[B], output: Schema) -> list[naive.Row]:
        """What a scan returns, keyed by the ids of `output`."""
        with scan.to_batches() as batches:
            return [row for batch in batches for row in self.format.batches.rows(output, batch)]

    def compare(
        self,
        schemas: Sequence[Schema],
        files: Sequence[naive.File],
        where: str | BooleanExpression | None = None,
        select: Sequence[str] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        **facts: Any,
    ) -> None:
        """Scan a table made of the files, and compare with the naive evaluator.

        Args:
            schemas: All schemas that the table had; the last one is current.
            files: What was written, each with the schema of its time.
            where: The filter.
            select: Names of top-level columns and metadata columns; all of the table's if left out.
            options: Keywords of `formatkit.scan`.
            facts: Keywords of `make_table`.
        """
        current = schemas[-1]
        everything = Schema(*current.fields, *METADATA_COLUMNS.values())
        names = [column.name for column in current.fields] if select is None else list(select)
        output = Schema(*(everything.find_field(name) for name in names))
        predicate = AlwaysTrue() if where is None else parse(where) if isinstance(where, str) else where
        with self.folder() as folder:
            table, written = self.table(folder, schemas, files, **facts)
            answer = scan(
                table,
                where,
                names,
                registry=self.registry,
                batch_type=self.format.plugin.batch_type,
                **(options or {}),
            )
            found = self.rows(answer, output)
        expected = naive.read(written, everything, predicate, output)
        expect.equal_rows(found, expected, f"rows where {where}" if where is not None else "rows")

    def random(self, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        return self.format.random(*strategies)
