"""A file of another writer, read in every way, against the rows that went in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

import formatkit
from formatkit.contract import POS, Capability
from formatkit.registry import default_registry
from formatkit.tck.naive import Row, narrow
from formatkit.tck.rows import comparable, from_arrow
from support.corpus.content import Content, fill
from support.corpus.questions import answers, questions
from support.corpus.settings import Settings
from support.corpus.writer import Writer
from support.lived_tables import in_splits

__all__ = ["ASKED", "wrong_answers"]

ASKED: Counter[str] = Counter()
"""How many files of how many writers were asked how many questions."""

# Opening a file costs more the more columns it has, and the naive evaluator more the more rows there are.
_COLUMNS, _COLUMNS_OF_LONG_FILES, _LONG = 7, 2, 1000


def wrong_answers(
    writer: Writer, settings: Settings, seed: int, folder: Path, *, limit: int | None = None
) -> list[str]:
    """What was answered otherwise than by the naive evaluator about a file that is written here.

    Args:
        writer: Writes the file.
        settings: Its settings, and how many rows there are.
        seed: Chooses columns, values and questions.
        folder: Where the file is put.
        limit: The most questions to ask; all by default.
    """
    rows = settings["rows"]
    known = writer.columns(settings)
    count = min(len(known), _COLUMNS_OF_LONG_FILES if rows > _LONG else _COLUMNS)
    content = fill([known[(seed * count + number) % len(known)] for number in range(count)], rows, seed)
    path = folder / f"{seed}.{writer.ending}"
    writer.write(path, content, {name: value for name, value in settings.items() if name != "rows"})
    ASKED.update({"files": 1, f"files of {writer.name}": 1})
    return list(_differences(path, content, seed, limit))


def _differences(path: Path, content: Content, seed: int, limit: int | None) -> Iterator[str]:
    everything = Schema(*content.schema.fields, POS)
    rows = [{**row, POS.field_id: position} for position, row in enumerate(content.rows)]
    try:
        found = formatkit.read_file(path).schema
    except formatkit.FormatkitError as error:
        yield f"cannot be opened: {error}"
        return
    for expected, field in zip(content.schema.fields, found.fields, strict=True):
        if (right := _shape(expected.field_type)) != (kind := _shape(field.field_type)):
            yield f"{expected.name} is {kind}, not {right}"
    reading = _Reading(path, everything, rows)
    names = [field.name for field in everything.fields]
    yield from reading.differences(None, names, batch_rows=7)
    yield from reading.differences(None, names, split=max(64, path.stat().st_size // 5))
    asked = questions(content.schema, content.rows, seed)[:limit]
    # Another column is read beside the filter each time: some readers fetch it only where rows match.
    for number, (where, beside) in enumerate(zip(asked, cycle(names[:-1]), strict=False)):
        split = max(64, path.stat().st_size // 3) if number % 7 == 3 else None
        yield from reading.differences(where, [beside, POS.name], split=split, batch_rows=50 if number % 5 else 4096)


class _Reading:
    """One file, and the rows that it should have."""

    def __init__(self, path: Path, schema: Schema, rows: Sequence[Row]) -> None:
        self._path = path
        self._schema = schema
        self._rows = rows
        plugin: Any = default_registry().plugin(path.suffix[1:], pa.RecordBatch)
        self._can_split = Capability.SPLIT in plugin.capabilities

    def differences(
        self, where: BooleanExpression | None, names: list[str], *, batch_rows: int = 4096, split: int | None = None
    ) -> Iterator[str]:
        """What is wrong with the answer to one question, if anything is."""
        if split and not self._can_split:
            split = None
        number = ASKED["questions"] = ASKED["questions"] + 1
        output = Schema(*(self._schema.find_field(name) for name in names))
        kept = self._rows if where is None else [self._rows[at] for at in answers(self._schema, self._rows, where)]
        expected = comparable(narrow(row, output.as_struct()) for row in kept)
        question = f"{where or 'all rows'}, select {', '.join(names)}" + (f", in splits of {split}" if split else "")
        try:
            scan = formatkit.read_file(self._path, where, names, batch_rows=batch_rows)
            count = scan.count() if number % 3 == 0 else len(expected)
            batches = list((in_splits(scan, split) if split else scan).to_batches())
        except formatkit.FormatkitError as error:
            yield f"{question}: {type(error).__name__}: {error}"
            return
        answer = comparable(row for batch in batches for row in from_arrow(output, batch))
        if answer != expected:
            yield f"{question}: {_first_difference(answer, expected)}"
        if count != len(expected):
            yield f"{question}: counts {count} rows, not {len(expected)}"
        if any(batch.num_rows > batch_rows for batch in batches):
            yield f"{question}: has a batch of more than {batch_rows} rows"


def _first_difference(answer: list[str], expected: list[str]) -> str:
    pairs = zip(answer, expected, strict=False)
    at = next(
        (number for number, (found, right) in enumerate(pairs) if found != right), min(len(answer), len(expected))
    )
    found, right = (rows[at][:300] if at < len(rows) else "no row" for rows in (answer, expected))
    return f"{len(answer)} rows, not {len(expected)}; the first that differs is {at}: {found}, not {right}"


def _shape(kind: IcebergType) -> str:
    """The type without ids, and without what is required, which many formats do not store."""
    match kind:
        case StructType():
            return "struct<{}>".format(", ".join(f"{child.name}: {_shape(child.field_type)}" for child in kind.fields))
        case ListType():
            return f"list<{_shape(kind.element_type)}>"
        case MapType():
            return f"map<{_shape(kind.key_type)}, {_shape(kind.value_type)}>"
    return str(kind)
