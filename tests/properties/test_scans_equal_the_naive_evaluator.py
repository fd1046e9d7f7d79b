from __future__ import annotations

import tempfile
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

OFTEN = settings(max_examples=5 * settings.default.max_examples)  # type: ignore[union-attr]


def selections(table: LivedTable) -> st.SearchStrategy[list[str]]:
    """Some columns of the table and some metadata columns, in any order."""
    own = [field.name for field in table.schema.fields]
    return st.lists(st.sampled_from([*own, *own, *METADATA_COLUMNS]), unique=True, max_size=6)


def output_schema(table: LivedTable, names: list[str]) -> Schema:
    return Schema(*(METADATA_COLUMNS.get(name) or table.schema.find_field(name) for name in names))


@OFTEN
@given(st.data())
def test_a_scan_equals_the_naive_evaluator(data: st.DataObject) -> None:
    lived = data.draw(lived_tables())
    everything = Schema(*lived.schema.fields, *METADATA_COLUMNS.values())
    predicate = data.draw(predicates(lived.schema))
    names = data.draw(selections(lived))
    split = data.draw(st.none() | st.integers(1, 700))
    batch_rows = data.draw(st.integers(1, 13))
    threads = data.draw(st.integers(1, 3))
    with tempfile.TemporaryDirectory() as directory:
        table, files = lived.build(Path(directory))
        scan = formatkit.scan(table, where=predicate, select=names, batch_rows=batch_rows, threads=threads)
        output = output_schema(lived, names)
        expected = naive.read(files, everything, predicate, output)
        batches = list((in_splits(scan, split) if split else scan).to_batches())
        note(str(scan.explain()))

        assert scan.count() == len(expected)
        assert max((batch.num_rows for batch in batches), default=0) <= batch_rows
        rows = [row for batch in batches for row in from_arrow(output, batch)] if names else []
        assert comparable(rows) == comparable(expected if names else [])
        assert sum(batch.num_rows for batch in batches) == len(expected)
