"""A file format that keeps its rows in memory, with a reader that can be as lazy or as eager as a test wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.contract.metadata_columns import POS
from formatkit.contract.options import ReadOptions
from formatkit.contract.results import BatchStream, ReadResult
from support.rowbatch import Row, RowBatch, RowOps, holds

__all__ = ["RowFile"]


@dataclass
class RowFile:
    """`FormatFile[RowBatch]`.

    Attributes:
        effort: What the reader does with a predicate: nothing, or filter every row.
        evolves: Whether it returns the target schema when it is given one.
        open_reads: How many reads were started and not yet released.
        requests: The options of every read.
    """

    schema: Schema
    content: Sequence[Row]
    unreadable: Mapping[int, str] = field(default_factory=dict)
    effort: Literal["none", "rows"] = "none"
    evolves: bool = False
    open_reads: int = 0
    requests: list[ReadOptions] = field(default_factory=list)

    @property
    def row_count(self) -> int:
        return len(self.content)

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return ()

    @property
    def metadata(self) -> Mapping[str, str]:
        return {}

    def read(self, options: ReadOptions) -> ReadResult[RowBatch]:
        self.requests.append(options)
        self.open_reads += 1
        evolved = self.evolves and options.target is not None
        residual: BooleanExpression = AlwaysTrue() if self.effort == "rows" else options.predicate
        return ReadResult(
            batches=BatchStream(self._batches(options, evolved), self._release),
            residual=residual,
            schema_evolved=evolved,
            counters={"rows": len(self.content)},
        )

    def describe(self) -> Mapping[str, Any]:
        return {}

    def close(self) -> None:
        """Nothing is held."""

    def _release(self) -> None:
        self.open_reads -= 1

    def _batches(self, options: ReadOptions, evolved: bool) -> Iterator[RowBatch]:
        rows = [_pick_row(row, position, self.schema, options.projection) for position, row in enumerate(self.content)]
        if self.effort == "rows":
            rows = [row for row in rows if holds(options.predicate, options.projection, row)]
        for start in range(0, len(rows), options.batch_rows):
            batch = RowBatch(tuple(rows[start : start + options.batch_rows]))
            if evolved and options.target is not None:
                batch = RowOps().evolve(options.projection, options.target, {})(batch)
            yield batch

    def with_(self, **changes: Any) -> RowFile:
        return replace(self, open_reads=0, requests=[], **changes)


def _pick_row(row: Row, position: int, schema: Schema, projection: Schema) -> Row:
    stored = [field for field in projection.fields if field.field_id != POS.field_id]
    picked = _pick_fields(row, schema.fields, stored)
    return (*picked, position) if len(stored) < len(projection.fields) else picked


def _pick_fields(row: Row, fields: Sequence[NestedField], wanted: Sequence[NestedField]) -> Row:
    """By name and in the file's order, as clause R3 has it: anything else is a fault of the caller."""
    names = [field.name for field in fields]
    positions = [names.index(field.name) for field in wanted]
    assert positions == sorted(positions)
    return tuple(
        _pick(row[position], fields[position].field_type, field.field_type)
        for position, field in zip(positions, wanted, strict=True)
    )


def _pick(value: Any, stored: IcebergType, wanted: IcebergType) -> Any:
    assert type(stored) is type(wanted)
    if value is None:
        return None
    match stored, wanted:
        case StructType(), StructType():
            assert wanted.fields
            return _pick_fields(value, stored.fields, wanted.fields)
        case ListType(), ListType():
            return [_pick(element, stored.element_type, wanted.element_type) for element in value]
        case MapType(), MapType():
            return [
                (_pick(key, stored.key_type, wanted.key_type), _pick(item, stored.value_type, wanted.value_type))
                for key, item in value
            ]
    assert stored == wanted
    return value
