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
from formatkit.errors import CorruptFileError
from formatkit.kernel.intervals import Bracket
from formatkit.kernel.names import Path, column_paths, dotted
from formatkit.kernel.predicates import ColumnReference, compare
from formatkit.validation.columns import ColumnTruth, Piece
from formatkit.validation.findings import Findings
from formatkit.validation.reading import FileFacts, FileRows, flat_columns, optional

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
    facts: FileFacts | None = None
    with findings.reading(rows.location, f"a {rows.task.file_format} file"):
        facts = rows.facts()
    if facts is None:
        return None
    _check_ids(rows, facts, findings)
    fields = _readable(rows, facts, findings)
    truth: list[tuple[Split | None, ColumnTruth]] | None = None
    with findings.reading(rows.location, f"a {rows.task.file_format} file with the columns {_names(fields)}"):
        truth = [_decoded(rows, fields, split, watchers) for split in facts.chunks]
    if truth is None:
        return None
    _check_positions(rows, [column for _, column in truth], facts, findings)
    whole = _whole(truth)
    findings.count("rows", whole.row_count)
    schema = Schema(*fields)
    _check_required(rows, schema, whole, findings)
    for split, column in truth:
        _check_skipping(rows, schema, split, column.pieces, findings)
    return whole


def _names(fields: Sequence[NestedField]) -> str:
    return ", ".join(field.name for field in fields) or "none"


def _check_ids(rows: FileRows, facts: FileFacts, findings: Findings) -> None:
    stored = [path for path in column_paths(facts.schema) if path[-1].field_id >= 0]
    for id_, count in Counter(path[-1].field_id for path in stored).items():
        if count > 1:
            names = ", ".join(dotted(path) for path in stored if path[-1].field_id == id_)
            findings.add("field-id-twice", rows.location, said=f"field id {id_} once", found=f"columns {names}")


def _readable(rows: FileRows, facts: FileFacts, findings: Findings) -> list[NestedField]:
    """The columns that can be read, all of them optional."""
    names = {path[-1].field_id: dotted(path) for path in column_paths(facts.schema)}
    unreadable = [names.get(id_, str(id_)) for id_ in facts.unreadable]
    tops = {name.partition(".")[0] for name in unreadable}
    for name, reason in zip(unreadable, facts.unreadable.values(), strict=True):
        findings.add("not-checked", rows.location, said=f"column {name!r}", found=reason)
    return [optional(field) for field in rows.schema.fields if not tops or field.name not in tops]


def _decoded(
    rows: FileRows, fields: Sequence[NestedField], split: Split | None, watchers: Sequence[Watcher]
) -> tuple[Split | None, ColumnTruth]:
    schema = Schema(*fields)
    truth = ColumnTruth(schema)
    with rows.read(fields, split=split, batch_rows=_PIECE_ROWS) as batches:
        for batch in batches:
            positions = batch.column(batch.num_columns - 1).to_numpy()
            if not len(positions):
                continue
            if not (np.diff(positions) == 1).all():
                message = f"{rows.location}: the positions of its rows do not follow one another"
                raise CorruptFileError(message, location=rows.location)
            values = batch.select(range(batch.num_columns - 1))
            truth.update(values, int(positions[0]))
            for watch in watchers:
                watch(schema, values, int(positions[0]))
    return split, truth


def _check_positions(rows: FileRows, truth: Sequence[ColumnTruth], facts: FileFacts, findings: Findings) -> None:
    expected = 0
    for piece in (piece for column in truth for piece in column.pieces):
        if piece.start != expected:
            findings.add("positions", rows.location, said=f"position {expected} is next", found=str(piece.start))
            break
        expected = piece.end
    decoded = sum(column.whole.row_count for column in truth)
    for who, said in (("the file", facts.row_count), ("the manifest", rows.task.row_count)):
        if said is not None and said != decoded:
            findings.add("row-count", rows.location, said=f"{said} rows, says {who}", found=f"{decoded} rows")


def _whole(truth: Sequence[tuple[Split | None, ColumnTruth]]) -> FileMetrics:
    pieces = [piece for _, column in truth for piece in column.pieces]
    together = ColumnTruth(Schema())
    together.pieces.extend(pieces)
    return together.whole


def _check_required(rows: FileRows, schema: Schema, whole: FileMetrics, findings: Findings) -> None:
    for path in flat_columns(rows.schema):
        metrics = whole.columns.get(path[-1].field_id)
        # A leaf of a null struct is null, too.
        if metrics is not None and metrics.null_count and all(field.required for field in path):
            found = f"{metrics.null_count} nulls"
            findings.add("required-null", rows.location, said=f"column {dotted(path)!r} is required", found=found)


def _check_skipping(
    rows: FileRows, schema: Schema, split: Split | None, pieces: Sequence[Piece], findings: Findings
) -> None:
    """Ask the reader for values that are there, and see whether it finds them."""
    for path in flat_columns(schema):
        for text, predicate, expected in _questions(schema, path, pieces):
            said = f"no row has {text}{'' if split is None else f' in the bytes {split.start} to {split.end}'}"
            with findings.reading(rows.location, f"a file in which rows with {text} can be found"):
                found = _positions(rows, predicate, split)
                wrong = [piece for piece, count in expected if not _agrees(found, piece, count)]
                if wrong:
                    spans = ", ".join(f"{piece.start} to {piece.end - 1}" for piece in wrong[:3])
                    findings.add("statistics-wrong", rows.location, said=said, found=f"there are, in rows {spans}")


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
        for value in {repr(each): each for each in (metrics.lower, metrics.upper) if each is not None}.values():
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


def _positions(rows: FileRows, predicate: BooleanExpression, split: Split | None) -> Any:
    with rows.read((), predicate, split=split) as batches:
        parts = [batch.column(0).to_numpy() for batch in batches]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _agrees(found: Any, piece: Piece, count: int | None) -> bool:
    first, end = np.searchsorted(found, (piece.start, piece.end))
    return bool(end > first) if count is None else int(end - first) == count
