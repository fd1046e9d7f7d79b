"""Random deletes of every kind and age, in files of every format, compared with sets of rows in plain Python."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

import formatkit
from formatkit.write.commit import Change, commit
from formatkit.write.deletes import write_equality_deletes, write_position_deletes
from support.iceberg_tables import columns, new_catalog

FORMATS = ["parquet", "avro", "orc", "arrow"]
SCHEMA = columns(id=pa.int64(), a=pa.int32(), b=pa.string())
COLUMNS = ("id", "a", "b")
SMALL = st.none() | st.integers(0, 4)
TEXT = st.none() | st.sampled_from(["x", "y", ""])
NAMES = count()


@dataclass(frozen=True)
class Append:
    rows: list[tuple[Any, Any]]
    file_format: str


@dataclass(frozen=True)
class DeleteAt:
    places: list[tuple[int, int]]
    file_format: str


@dataclass(frozen=True)
class DeleteEqual:
    columns: tuple[str, ...]
    keys: list[tuple[Any, Any]]
    file_format: str


STEPS = st.lists(
    st.builds(Append, st.lists(st.tuples(SMALL, TEXT), min_size=1, max_size=8), st.sampled_from(FORMATS))
    | st.builds(
        DeleteAt,
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=4),
        st.sampled_from(FORMATS),
    )
    | st.builds(
        DeleteEqual,
        st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a")]),
        st.lists(st.tuples(SMALL, TEXT), min_size=1, max_size=3),
        st.sampled_from(FORMATS),
    ),
    min_size=2,
    max_size=6,
)


def values(row: tuple[Any, ...], names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[COLUMNS.index(name)] for name in names)


def table_of(rows: list[Any], columns: tuple[str, ...]) -> pa.Table:
    fields = pa.schema([SCHEMA.field(name) for name in columns])
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema=fields)


class Model:
    """A table beside what its rows must be: for each data file its rows and which of them are deleted."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.files: list[tuple[str, list[tuple[Any, Any, Any]], set[int]]] = []
        self._ids = count()

    def apply(self, step: Append | DeleteAt | DeleteEqual) -> None:
        match step:
            case Append():
                rows = [(next(self._ids), a, b) for a, b in step.rows]
                known = {location for location, _, _ in self.files}
                formatkit.append(self.table, table_of(rows, COLUMNS), step.file_format)
                (added,) = {task.location for task in formatkit.scan(self.table).tasks} - known
                self.files.append((added, rows, set()))
            case DeleteAt() if self.files:
                places: dict[str, list[int]] = {}
                for number, position in step.places:
                    location, _, deleted = self.files[number % len(self.files)]
                    places.setdefault(location, []).append(position)
                    deleted.add(position)
                positions = {each: np.array(at, np.int64) for each, at in places.items()}
                written = write_position_deletes(self._new_file(), positions, file_format=step.file_format)
                self._commit(written, frozenset(places))
            case DeleteEqual() if self.files:
                keys = [values((None, *key), step.columns) for key in step.keys]
                data, ids = table_of(keys, step.columns), [COLUMNS.index(name) + 1 for name in step.columns]
                schema = self.table.schema()
                file = write_equality_deletes(self._new_file(), data, schema, ids, file_format=step.file_format)
                self._commit(file, frozenset())
                for _, rows, deleted in self.files:
                    deleted.update(at for at, row in enumerate(rows) if values(row, step.columns) in keys)

    def _new_file(self) -> str:
        return f"{self.table.location()}/data/deletes-{next(NAMES)}"

    def _commit(self, file: Any, referenced: frozenset[str]) -> None:
        snapshot = self.table.current_snapshot()
        change = Change(
            operation=Operation.DELETE,
            added_deletes=(file,),
            referenced=referenced,
            base_snapshot_id=snapshot.snapshot_id if snapshot else None,
        )
        commit(self.table, change)

    def rows(self) -> list[tuple[Any, ...]]:
        return [(*row, at in deleted) for _, rows, deleted in self.files for at, row in enumerate(rows)]


def new_table(catalog: InMemoryCatalog) -> Table:
    return catalog.create_table(f"db.t{next(NAMES)}", schema=SCHEMA)


@settings(max_examples=max(10, settings.default.max_examples // 3))  # type: ignore[union-attr]
@given(STEPS, SMALL, st.integers(1, 4))
def test_rows_are_those_that_nothing_deleted(steps: list[Any], least: int | None, threads: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(new_table(new_catalog(Path(folder))))
        for step in steps:
            model.apply(step)
        where = "a is null" if least is None else f"a >= {least}"
        wanted = [row for row in model.rows() if passes(row[1], least)]
        marked = formatkit.scan(model.table, where, ("id", "a", "b", "_deleted"), threads=threads)
        assert sorted(found(marked)) == sorted(wanted)
        live = formatkit.scan(model.table, where, threads=threads)
        assert sorted(found(live)) == sorted(row[:3] for row in wanted if not row[3])
        whole = formatkit.scan(model.table)
        assert whole.count() == whole.to_arrow().num_rows == sum(not row[3] for row in model.rows())


def passes(value: int | None, least: int | None) -> bool:
    return value is None if least is None else value is not None and value >= least


def found(scan: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in scan.to_arrow().to_pylist()]
