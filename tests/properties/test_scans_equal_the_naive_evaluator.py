from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema

import formatkit
from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.tck import naive
from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.strategies import predicates
from support.lived_tables import LivedTable, in_splits, lived_tables
from support.thresholds import picking_pages

# 500 examples in CI with splits, 200 without.
OFTEN = settings(max_examples=5 * settings.default.max_examples)  # type: ignore[union-attr]
LESS_OFTEN = settings(max_examples=2 * settings.default.max_examples)  # type: ignore[union-attr]


def selections(table: LivedTable) -> st.SearchStrategy[list[str]]:
    """Some columns of the table and some metadata columns, in any order."""
    own = [field.name for field in table.schema.fields]
    return st.lists(st.sampled_from([*own, *own, *METADATA_COLUMNS]), unique=True, max_size=6)


def check(data: st.DataObject, split: int | None) -> None:
    """Draw a table and a question, and compare the scan's answer with the truth."""
    lived = data.draw(lived_tables(), label="table")
    predicate = data.draw(predicates(lived.schema, favourites=lived.changed), label="where")
    names = data.draw(selections(lived), label="select")
    batch_rows = data.draw(st.integers(1, 13), label="batch_rows")
    threads = data.draw(st.integers(1, 3), label="threads")
    everything = Schema(*lived.schema.fields, *METADATA_COLUMNS.values())
    output = Schema(*(everything.find_field(name) for name in names))
    kept_bytes = data.draw(st.sampled_from([None, 0, 1 << 20]), label="bytes that a selective read keeps")
    way = nullcontext() if kept_bytes is None else picking_pages(kept_bytes)
    with tempfile.TemporaryDirectory() as directory, way:
        table, files = lived.build(Path(directory))
        expected = naive.read(files, everything, predicate, output)
        scan = formatkit.scan(table, where=predicate, select=names, batch_rows=batch_rows, threads=threads)
        batches = list((in_splits(scan, split) if split else scan).to_batches())
        count = scan.count()
    note(str(scan.explain()))
    assert [batch for batch in batches if batch.num_rows > batch_rows] == []
    assert sum(batch.num_rows for batch in batches) == len(expected)
    assert count == len(expected)
    if names:
        assert comparable(row for batch in batches for row in from_arrow(output, batch)) == comparable(expected)


@LESS_OFTEN
@given(st.data())
def test_a_scan_equals_the_naive_evaluator(data: st.DataObject) -> None:
    check(data, split=None)


@OFTEN
@given(st.data(), st.integers(64, 1000))
def test_a_scan_in_splits_equals_the_naive_evaluator(data: st.DataObject, split: int) -> None:
    check(data, split)
