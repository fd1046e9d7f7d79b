"""Arrow's batch type with one thing wrong: how the faults in the modules beside this one are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Not, Or
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import ColumnMetrics, FileMetrics, InjectedColumn, MetricsMode
from formatkit.tck import Subject, naive
from formatkit.tck.naive import Row
from formatkit.tck.rows import from_arrow, to_arrow

__all__ = ["GOOD", "Leaf", "batch_of", "collecting", "evolving", "faulty", "filtering", "injecting"]

GOOD = ArrowBatch()


def faulty(**methods: Callable[..., Any]) -> Subject[Any]:
    """Arrow's batch type with these methods instead of its own."""
    replaced = {name: staticmethod(method) for name, method in methods.items()}
    kind = type("FaultyBatch", (ArrowBatch,), replaced)
    return Subject(operations=kind())


def batch_of(schema: Schema, rows: Sequence[Row]) -> pa.RecordBatch:
    """The rows as a batch of plain columns."""
    table = to_arrow(schema, rows, ids=False).combine_chunks()
    columns: list[Any] = [column.combine_chunks() for column in table.columns]
    return table.to_batches()[0] if rows else pa.RecordBatch.from_arrays(columns, schema=table.schema)


@dataclass(frozen=True)
class Leaf:
    """One condition on one row, and the right answer."""

    operator: str
    kind: IcebergType
    value: Any
    literals: Sequence[Any]
    answer: bool


def filtering(judge: Callable[[Leaf], bool]) -> Subject[Any]:
    """A filter that asks `judge` for each condition, and combines the answers as it should."""

    def holds(row: Row, schema: Schema, predicate: BooleanExpression) -> bool:
        match predicate:
            case AlwaysTrue() | AlwaysFalse():
                return isinstance(predicate, AlwaysTrue)
            case And():
                return holds(row, schema, predicate.left) and holds(row, schema, predicate.right)
            case Or():
                return holds(row, schema, predicate.left) or holds(row, schema, predicate.right)
            case Not():
                return not holds(row, schema, predicate.child)
        return judge(_leaf(row, schema, predicate))

    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        return lambda batch: GOOD.take_rows(batch, [holds(row, schema, predicate) for row in from_arrow(schema, batch)])

    return faulty(filter=compiled)


def _leaf(row: Row, schema: Schema, predicate: Any) -> Leaf:
    field = predicate.term.ref().field
    literals = getattr(predicate, "literals", None)
    if literals is None:
        literals = [predicate.literal] if hasattr(predicate, "literal") else []
    return Leaf(
        operator=type(predicate).__name__.removeprefix("Bound"),
        kind=field.field_type,
        value=_value(row, field.field_id),
        literals=[literal.value for literal in literals],
        answer=naive.matches(row, schema, predicate),
    )


def _value(row: Any, field_id: int) -> Any:
    """The value of the field, wherever it is inside structs."""
    if not isinstance(row, dict):
        return None
    if field_id in row:
        return row[field_id]
    return next((found for child in row.values() if (found := _value(child, field_id)) is not None), None)


def evolving(change: Callable[[Row, Row], Row]) -> Subject[Any]:
    """An evolution that spoils each row: `change` is given the row before and the right row after it."""

    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            before = from_arrow(source, batch)
            after = from_arrow(target, good(batch))
            return batch_of(target, [change(*rows) for rows in zip(before, after, strict=True)])

        return step

    return faulty(evolve=compiled)


def injecting(change: Callable[[InjectedColumn], InjectedColumn]) -> Subject[Any]:
    """An injection that changes what is asked for."""
    return faulty(inject=lambda schema, columns: GOOD.inject(schema, [change(column) for column in columns]))


def collecting(change: Callable[[ColumnMetrics, IcebergType], ColumnMetrics]) -> Subject[Any]:
    """A collector that spoils the metrics of each column."""

    class Collector:
        def __init__(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> None:
            self.schema = schema
            self.good = GOOD.collector(schema, modes)

        def update(self, batch: pa.RecordBatch) -> None:
            self.good.update(batch)

        def finish(self) -> FileMetrics:
            found = self.good.finish()
            columns = {
                field_id: change(metrics, self.schema.find_field(field_id).field_type)
                for field_id, metrics in found.columns.items()
            }
            return FileMetrics(row_count=found.row_count, columns=columns)

    return faulty(collector=Collector)
