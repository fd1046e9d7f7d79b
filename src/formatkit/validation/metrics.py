"""Compares the column metrics of a manifest entry with the values of the file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, UUIDType

from formatkit.contract.metrics import ColumnMetrics, FileMetrics
from formatkit.kernel.names import dotted
from formatkit.scan.bounds import decode_bound
from formatkit.validation.findings import Findings
from formatkit.validation.reading import flat_columns

__all__ = ["check_metrics"]


def check_metrics(file: DataFile, truth: FileMetrics, schema: Schema, findings: Findings) -> None:
    """Compare counts and bounds. What the metrics modes of the table left out is not missed.

    Columns inside of lists and maps are left out: their counts are not counts of rows.
    """
    for path in flat_columns(schema):
        field, name = path[-1], dotted(path)
        actual = truth.columns.get(field.field_id)
        if actual is not None:
            _check_counts(file, field.field_id, name, actual, truth.row_count, findings, top=len(path) == 1)
            for code, said, found in _wrong_bounds(file, field, actual):
                findings.add(code, file.file_path, said=f"column {name!r}: {said}", found=found)


def _check_counts(
    file: DataFile,
    field_id: int,
    name: str,
    actual: ColumnMetrics,
    rows: int,
    findings: Findings,
    *,
    top: bool,
) -> None:
    values = _get(file.value_counts, field_id)
    # Writers count the values of a struct that is null in different ways; readers heed counts of all rows only.
    if values is not None and values != rows:
        if top:
            found = f"{rows} values, nulls included"
            findings.add("value-count", file.file_path, said=f"column {name!r}: {values} values", found=found)
        return
    for code, counts, true, noun in (
        ("null-count", file.null_value_counts, actual.null_count, "nulls"),
        ("nan-count", file.nan_value_counts, actual.nan_count, "NaN"),
    ):
        count = _get(counts, field_id)
        if count is not None and true is not None and count != true:
            findings.add(code, file.file_path, said=f"column {name!r}: {count} {noun}", found=f"{true} {noun}")


def _wrong_bounds(file: DataFile, field: NestedField, actual: ColumnMetrics) -> Iterator[tuple[str, str, str]]:
    stored = [_get(bounds, field.field_id) for bounds in (file.lower_bounds, file.upper_bounds)]
    lower, upper = (decode_bound(field.field_type, each) for each in stored)
    for what, data, bound in zip(("lower", "upper"), stored, (lower, upper), strict=True):
        is_nan = isinstance(bound, float) and math.isnan(bound)
        if data is not None and (bound is None or is_nan) and actual.lower is not None:
            found = "NaN is no bound" if is_nan else f"{len(data)} bytes are no {field.field_type}"
            yield "bound-invalid", f"{what} bound 0x{data.hex()}", found
            return
    if actual.lower is None or actual.upper is None:
        return
    if isinstance(field.field_type, UUIDType):
        # Java orders uuids as two signed numbers. Bounds may be in either order, if they are so for all values.
        orders: Sequence[Any] = (bytes, _java_order)
    else:
        orders = (lambda value: value,)
    if not any(_encloses(lower, upper, actual, order) for order in orders):
        said = f"{lower!r} to {upper!r}"
        if lower is not None and upper is not None and all(order(lower) > order(upper) for order in orders):
            yield "bounds-inverted", said, "the lower bound is above the upper bound"
        else:
            yield "bounds-narrow", said, f"{actual.lower!r} to {actual.upper!r}"


def _encloses(lower: Any, upper: Any, actual: ColumnMetrics, order: Any) -> bool:
    values = [order(actual.lower), order(actual.upper)]
    return (lower is None or order(lower) <= min(values)) and (upper is None or order(upper) >= max(values))


def _java_order(value: bytes) -> tuple[int, int]:
    return int.from_bytes(value[:8], "big", signed=True), int.from_bytes(value[8:], "big", signed=True)


def _get(values: Mapping[int, Any] | None, field_id: int) -> Any:
    return (values or {}).get(field_id)
