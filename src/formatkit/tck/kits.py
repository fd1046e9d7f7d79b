"""What checks are given: the thing under test, and the few verbs that every check needs.

Truth never comes from here. Rows go in and come out as `formatkit.tck.naive` holds them, predicates that are left over
are applied one row at a time, and files are plain bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from formatkit.contract import (
    ByteSource,
    Capability,
    DataBatch,
    FormatFile,
    FormatPlugin,
    OpenOptions,
    ReadOptions,
    Split,
    WriteOptions,
    WriteResult,
)
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind
from formatkit.tck import naive
from formatkit.tck.forms import arrow_forms
from formatkit.tck.results import DEFAULT_EXAMPLES
from formatkit.tck.rows import from_arrow, to_arrow
from formatkit.tck.storages import SHIPPED_STORAGES, MakeStorage
from formatkit.write.deletes import write_deletion_vectors, write_equality_deletes, write_position_deletes

__all__ = ["SMALL_CHUNKS", "BatchKit", "Bridge", "DeleteWriters", "FormatKit", "Profile", "Stored", "bridge_for"]

B = TypeVar("B")

# Makes the shipped formats write many chunks for few rows. Plugins ignore what they do not know.
SMALL_CHUNKS: Mapping[str, str] = {
    "write.parquet.row-group-limit": "3",
    "write.parquet.page-row-limit": "2",
    "write.orc.stripe-size-bytes": "1",
    "write.orc.vectorized.batch-size": "3",
    "write.orc.compression-codec": "none",
    "orc.dictionary.key.threshold": "0",
    "write.avro.block-size-bytes": "32",
}

_ONE_COLUMN = Schema(NestedField(1, "only", LongType()))


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
    """How hard to try.

    Attributes:
        examples: How many each random check is given.
        repeatable: Whether they are the same in every run.
        shrink: Whether to look for the smallest example that fails, which takes longer than to find one.
    """

    examples: int = DEFAULT_EXAMPLES
    repeatable: bool = True
    shrink: bool = True

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
                phases=[Phase.generate, Phase.shrink] if self.shrink else [Phase.generate],
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
        if not schema.fields:
            return self.operations.project(_ONE_COLUMN, [])(self.batch(_ONE_COLUMN, [{1: None} for _ in rows]))
        return self.bridge.from_arrow(_record_batch(schema, rows))

    def forms(self, schema: Schema, rows: Sequence[naive.Row]) -> Iterator[tuple[str, B]]:
        """The same rows in every physical form that Arrow and the batch type have, each with its name."""
        yield "plain", self.batch(schema, rows)
        for name, form in arrow_forms(_record_batch(schema, rows)):
            try:
                batch = self.bridge.from_arrow(form)
            except Exception:  # noqa: BLE001, S112 - a form that the type cannot be made of never comes to it
                continue
            yield name, batch

    def rows(self, schema: Schema, batch: B) -> list[naive.Row]:
        """The rows of a batch."""
        if not schema.fields:
            return [{} for _ in range(self.operations.num_rows(batch))]
        return from_arrow(schema, self.bridge.to_arrow(batch))

    def evolved(
        self,
        source: Schema,
        target: Schema,
        rows: Sequence[naive.Row],
        constants: Mapping[int, Any] | None = None,
    ) -> list[naive.Row]:
        """What becomes of rows of `source` as the batch type evolves them."""
        return self.rows(target, self.operations.evolve(source, target, constants or {})(self.batch(source, rows)))

    def form(self, batch: B) -> list[str]:
        """The types in which the columns are held, so that two batches can be compared."""
        return [f"{field.name}: {field.type}" for field in self.bridge.to_arrow(batch).schema]

    def random(self, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        return self.profile.random(*strategies)


def _record_batch(schema: Schema, rows: Sequence[naive.Row]) -> pa.RecordBatch:
    table = to_arrow(schema, rows, ids=False).combine_chunks()
    columns = [column.combine_chunks() for column in table.columns]
    return table.to_batches()[0] if rows else pa.RecordBatch.from_arrays(columns, schema=table.schema)


@dataclass(frozen=True, kw_only=True)
class DeleteWriters:
    """What writes delete files; all but the kit's own tests leave it as it is."""

    positions: Callable[..., DataFile] = write_position_deletes
    rows: Callable[..., DataFile | None] = write_equality_deletes
    vectors: Callable[..., list[DataFile]] = write_deletion_vectors


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
    batch_rows: int = 3
    storages: Sequence[MakeStorage] = SHIPPED_STORAGES
    delete_writers: DeleteWriters = field(default_factory=DeleteWriters)

    @property
    def nanoseconds(self) -> bool:
        """Whether random schemas may have timestamps with nanoseconds."""
        return Capability.NANOSECONDS in self.plugin.capabilities

    def write(
        self,
        schema: Schema,
        rows: Sequence[naive.Row],
        *,
        batch_rows: int | None = None,
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Stored:
        """Write the rows, of which there must be one at least, in chunks as small as the format makes them."""
        sink = MemorySink(location="memory:checked")
        options = WriteOptions(
            schema=schema, properties={**self.small_chunks, **(properties or {})}, metadata=metadata or {}
        )
        with self.plugin.writer().open(sink, options) as writer:
            size = batch_rows or self.batch_rows
            for start in range(0, len(rows), size):
                writer.write(self.batches.batch(schema, rows[start : start + size]))
            result = writer.close()
        if result is None or sink.data is None:
            raise AssertionError(f"{len(rows)} rows were written, but there is no file")
        return Stored(sink.data, result, schema, rows)

    @contextmanager
    def opened(self, data: bytes | ByteSource, options: OpenOptions | None = None) -> Iterator[FormatFile[B]]:
        """The file behind the bytes; it and its source are closed at the end of the block."""
        source = MemorySource(data, location="memory:checked") if isinstance(data, bytes) else data
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
            # A format may have to store other names than the table's, so names are used only where there are no ids.
            known = stored.schema if Capability.FIELD_IDS in self.plugin.capabilities else file.schema
            options = ReadOptions(
                projection=Schema(*file.schema.fields, *extra),
                predicate=bind(known, predicate or AlwaysTrue()),
                split=split,
                batch_rows=batch_rows,
            )
            return self.read(file, options, Schema(*stored.schema.fields, *extra))

    def random(self, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        return self.batches.profile.random(*strategies)
