"""Checks one data file: its structure, its row counts, its nulls, and whether its statistics skip rightly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression, BoundEqualTo, BoundIsNaN, BoundIsNull
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.contract.metrics import ColumnMetrics, FileMetrics
from formatkit.contract.options import Split
from formatkit.errors import CorruptFileError, enough_memory
from formatkit.kernel.intervals import Bracket
from formatkit.kernel.names import Path, column_paths, dotted
from formatkit.kernel.predicates import ColumnReference, compare
from formatkit.validation.columns import ColumnTruth, Piece
from formatkit.validation.findings import Findings
from formatkit.validation.reading import FileRows, OpenRows, flat_columns, optional

__all__ = ["check_file"]

Watcher = Callable[[Schema, pa.RecordBatch, int], None]
"""Sees each batch with its schema and the position of its first row."""

# Pages of most writers are larger, so that the extremes of a page are those of a piece.
_PIECE_ROWS = 1_024


def check_file(rows: FileRows, findings: Findings, watchers: Sequence[Watcher] = ()) -> FileMetrics | None:
    """Read a file to its last row, and compare what it says with what it has.

    Returns:
        The true metrics of its flat columns; None if it cannot be read.
    """
    findings.count("files")
    whole: FileMetrics | None = None
    kind = rows.task.file_format
    with findings.reading(rows.location, f"a {kind} file"), enough_memory(rows.location), rows.opened() as file:
        _check_ids(file, findings)
        fields = _readable(file, findings)
        truth = [_decoded(file, fields, split, watchers) for split in file.chunks]
        _check_positions(file, [column for _, column in truth], findings)
        whole = _whole(truth)
        findings.count("rows", whole.row_count)
        _check_required(rows, whole, findings)
        for split, column in truth:
            _check_skipping(file, Schema(*fields), split, column.pieces, findings)
    return whole


def _check_ids(file: OpenRows, findings: Findings) -> None:
    stored = [path for path in column_paths(file.file.schema) if path[-1].field_id >= 0]
    for id_, count in Counter(path[-1].field_id for path in stored).items():
        if count > 1:
            names = ", ".join(dotted(path) for path in stored if path[-1].field_id == id_)
            findings.add("field-id-twice", file.rows.location, said=f"field id {id_} once", found=f"columns {names}")


def _readable(file: OpenRows, findings: Findings) -> list[NestedField]:
    """The columns that can be read, all of them optional."""
    unreadable = [path for path in column_paths(file.file.schema) if path[-1].field_id in file.file.unreadable]
    for path in unreadable:
        reason = file.file.unreadable[path[-1].field_id]
        findings.add("not-checked", file.rows.location, said=f"column {dotted(path)!r}", found=reason)
    names = {path[0].name for path in unreadable}
    return [optional(field) for field in file.rows.schema.fields if field.name not in names]


def _decoded(
    file: OpenRows, fields: Sequence[NestedField], split: Split | None, watchers: Sequence[Watcher]
) -> tuple[Split | None, ColumnTruth]:
    schema = Schema(*fields)
    truth = ColumnTruth(schema)
    location = file.rows.location
    with file.read(fields, split=split, batch_rows=_PIECE_ROWS) as batches:
        for batch in batches:
            positions = batch.column(batch.num_columns - 1).to_numpy()
            if not len(positions):
                continue
            if not (np.diff(positions) == 1).all():
                message = f"{location}: the positions of its rows do not follow one another"
                raise CorruptFileError(message, location=location)
            values = batch.select(range(batch.num_columns - 1))
            truth.update(values, int(positions[0]))
            for watch in watchers:
                watch(schema, values, int(positions[0]))
    return split, truth


def _check_positions(file: OpenRows, truth: Sequence[ColumnTruth], findings: Findings) -> None:
    expected, location = 0, file.rows.location
    for piece in (piece for column in truth for piece in column.pieces):
        if piece.start != expected:
            findings.add("positions", location, said=f"position {expected} is next", found=str(piece.start))
            break
        expected = piece.end
    decoded = sum(column.whole.row_count for column in truth)
    for who, said in (("the file", file.file.row_count), ("the manifest", file.rows.task.row_count)):
        if said is not None and said != decoded:
            findings.add("row-count", location, said=f"{said} rows, says {who}", found=f"{decoded} rows")


def _whole(truth: Sequence[tuple[Split | None, ColumnTruth]]) -> FileMetrics:
    pieces = [piece for _, column in truth for piece in column.pieces]
    together = ColumnTruth(Schema())
    together.pieces.extend(pieces)
    return together.whole


def _check_required(rows: FileRows, whole: FileMetrics, findings: Findings) -> None:
    for path in flat_columns(rows.schema):
        metrics = whole.columns.get(path[-1].field_id)
        # A leaf of a null struct is null, too.
        if metrics is not None and metrics.null_count and all(field.required for field in path):
            found = f"{metrics.null_count} nulls"
            findings.add("required-null", rows.location, said=f"column {dotted(path)!r} is required", found=found)


def _check_skipping(
    file: OpenRows, schema: Schema, split: Split | None, pieces: Sequence[Piece], findings: Findings
) -> None:
    """Ask the reader for values that are there, and see whether it finds them."""
    where = "" if split is None else f" in the bytes {split.start} to {split.end}"
    for path in flat_columns(schema):
        dropped: set[str] = set()
        for text, predicate, expected in _questions(schema, path, pieces):
            with findings.reading(file.rows.location, f"a file in which rows with {text} can be found"):
                found = _positions(file, predicate, split, dropped)
                wrong = [piece for piece, count in expected if not _agrees(found, piece, count)]
                if wrong:
                    spans = ", ".join(f"{piece.start} to {piece.end - 1}" for piece in wrong[:3])
                    said, there = f"no row has {text}{where}", f"there are, in rows {spans}"
                    findings.add("statistics-wrong", file.rows.location, said=said, found=there)
        if dropped:
            said, kinds = f"statistics of column {dotted(path)!r}{where}", ", ".join(sorted(dropped))
            findings.add("statistics-dropped", file.rows.location, said=said, found=f"the reader counts {kinds}")


_Expected = list[tuple[Piece, int | None]]
"""Pieces in which there are rows, with the number of rows if it is known."""


def _questions(
    schema: Schema, path: Path, pieces: Sequence[Piece]
) -> Iterator[tuple[str, BooleanExpression, _Expected]]:
    """Filters that are true for some rows, in words and bound, and where these rows are."""
    id_, name = path[-1].field_id, dotted(path)
    reference = ColumnReference(path, schema.accessor_for_field(id_))
    values: dict[Any, _Expected] = defaultdict(list)
    nulls: _Expected = []
    nans: _Expected = []
    for piece in pieces:
        metrics = piece.columns.get(id_, ColumnMetrics())
        for value in {metrics.lower, metrics.upper, piece.row.get(id_, ColumnMetrics()).lower} - {None}:
            values[value].append((piece, None))
        if metrics.null_count:
            nulls.append((piece, metrics.null_count))
        if metrics.nan_count:
            nans.append((piece, metrics.nan_count))
    for value, where in values.items():
        yield f"{name} = {value!r}", compare(BoundEqualTo, reference, Bracket.at(value)), where
    if nulls:
        yield f"{name} is null", BoundIsNull(term=reference), nulls
    if nans:
        yield f"{name} is NaN", BoundIsNaN(term=reference), nans


def _positions(file: OpenRows, predicate: BooleanExpression, split: Split | None, dropped: set[str]) -> Any:
    """Where the rows are that the reader finds. Adds the counters of what it drops to those that are known."""
    with file.read((), predicate, split=split) as batches:
        parts = [batch.column(0).to_numpy() for batch in batches]
        dropped.update(name for name, count in batches.counters.items() if name.endswith("_dropped") and count)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _agrees(found: Any, piece: Piece, count: int | None) -> bool:
    first, end = np.searchsorted(found, (piece.start, piece.end))
    return bool(end > first) if count is None else int(end - first) == count
