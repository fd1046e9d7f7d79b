"""The loop: the rows of one file, as the table sees them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression

from formatkit.contract.batch import DataBatch, Step
from formatkit.contract.format import FormatFile
from formatkit.contract.metadata_columns import DELETED
from formatkit.contract.options import ReadOptions
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.errors import ContractViolationError, InvalidDataError
from formatkit.kernel.deletes import RowDeletes, compile_marks
from formatkit.kernel.plan import FilePlan, plan
from formatkit.kernel.request import FileRequest

__all__ = ["FileStream", "read"]

B = TypeVar("B")


class FileStream(BatchStream[B]):
    """The batches of one file, with an account of how they come about.

    Attributes:
        plan: What was decided before the first row was read.
        residual: What the reader left of the predicate.
        counters: What the reader counts, up to now, and `rows_deleted`, if rows may be.
    """

    def __init__(
        self,
        batches: Iterator[B],
        on_close: Callable[[], None] | None = None,
        *,
        plan: FilePlan,
        residual: BooleanExpression,
        counters: Mapping[str, Any],
    ) -> None:
        super().__init__(batches, on_close)
        self.plan = plan
        self.residual = residual
        self.counters = counters


def read(file: FormatFile[B], ops: DataBatch[B], request: FileRequest) -> FileStream[B]:
    """Read one file as a part of its table.

    Everything that can be wrong with the request or with the file's schema is raised here and not by the iteration. A
    file of which no row can match is not read. Where nothing is left to do the reader's own batches are returned.

    Args:
        file: The open file; it stays the caller's.
        ops: The operations on the file's batches.
        request: What is wanted.
    """
    file_plan = plan(file.schema, file.unreadable, request)
    if file_plan.is_empty:
        return FileStream(iter(()), plan=file_plan, residual=AlwaysFalse(), counters={})
    counts = {"rows_deleted": 0}
    late_stages = _late_stages(file_plan, ops, counts)
    result = file.read(
        ReadOptions(
            projection=file_plan.projection,
            predicate=file_plan.predicate,
            target=file_plan.target,
            split=request.split,
            batch_rows=request.batch_rows,
            dictionary_columns=request.dictionary_columns,
            threads=request.threads,
            properties=request.properties,
        )
    )
    try:
        stages = _first_stages(file_plan, ops, request, result) + ([] if result.schema_evolved else late_stages)
    except BaseException:
        result.batches.close()
        raise
    return FileStream(
        _run(result.batches, ops, stages, file_plan.location),
        result.batches.close,
        plan=file_plan,
        residual=result.residual,
        counters=ChainMap(counts, result.counters) if file_plan.deletes else result.counters,  # type: ignore[arg-type]  # only read
    )


@dataclass(frozen=True)
class _Stage(Generic[B]):
    step: Step[B]
    drops_rows: bool = False


def _first_stages(
    file_plan: FilePlan, ops: DataBatch[B], request: FileRequest, result: ReadResult[B]
) -> list[_Stage[B]]:
    """What the reader left of the predicate."""
    if result.schema_evolved and file_plan.target is None:
        raise ContractViolationError(
            "R3", f"the reader of {file_plan.location} evolved the schema without having been given a target"
        )
    if result.residual is AlwaysTrue():
        return []
    if result.schema_evolved:
        return [_Stage(ops.filter(file_plan.output, request.predicate), drops_rows=True)]
    return [_Stage(ops.filter(file_plan.projection, result.residual), drops_rows=True)]


def _late_stages(file_plan: FilePlan, ops: DataBatch[B], counts: dict[str, int]) -> list[_Stage[B]]:
    stages: list[_Stage[B]] = []
    if file_plan.deletes is not None:
        step = _delete(file_plan, file_plan.deletes, ops, counts)
        stages.append(_Stage(step, drops_rows=not file_plan.marks_deleted))
    if file_plan.computed:
        stages.append(_Stage(ops.inject(file_plan.marked, file_plan.computed)))
    if file_plan.late_predicate is not AlwaysTrue():
        stages.append(_Stage(ops.filter(file_plan.source, file_plan.late_predicate), drops_rows=True))
    if file_plan.reshaping == "project":
        stages.append(_Stage(ops.project(file_plan.source, [field.field_id for field in file_plan.output.fields])))
    elif file_plan.reshaping == "evolve":
        stages.append(_Stage(ops.evolve(file_plan.source, file_plan.output, file_plan.constants)))
    return stages


def _delete(file_plan: FilePlan, deletes: RowDeletes[B], ops: DataBatch[B], counts: dict[str, int]) -> Step[B]:
    """How deleted rows are dropped, or marked."""
    marks_of = compile_marks(deletes, ops, file_plan.projection, file_plan.constants)
    mark = ops.mark(file_plan.projection, DELETED) if file_plan.marks_deleted else None

    def step(batch: B) -> B:
        marks = marks_of(batch)
        if marks is not None:
            counts["rows_deleted"] += int(np.count_nonzero(marks))
        if mark is not None:
            return mark(batch, marks if marks is not None else np.zeros(ops.num_rows(batch), np.bool_))
        return batch if marks is None else ops.take_rows(batch, ~marks)

    return step


def _run(batches: BatchStream[B], ops: DataBatch[B], stages: list[_Stage[B]], location: str) -> Iterator[B]:
    with batches:
        for batch in batches:
            if not isinstance(batch, ops.batch_type):
                raise ContractViolationError(
                    "R3",
                    f"the reader of {location} returned a {type(batch).__name__} "
                    f"where {ops.batch_type.__name__} was promised",
                    location=location,
                )
            current = batch
            for stage in stages:
                try:
                    current = stage.step(current)
                except InvalidDataError as error:
                    raise InvalidDataError(f"{location}: {error.message}", location=location) from error
                if stage.drops_rows and ops.num_rows(current) == 0:
                    break
            else:
                yield current
