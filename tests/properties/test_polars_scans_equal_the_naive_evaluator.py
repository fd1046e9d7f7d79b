"""The same questions to the same tables as Arrow's scans are asked, answered in another batch type."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import polars as pl
from hypothesis import given, note
from hypothesis import strategies as st
from pyiceberg.schema import Schema

import formatkit
from formatkit.batches.polars.to_arrow import arrow_batch
from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.tck import naive
from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.strategies import predicates
from support.lived_tables import in_splits, lived_tables


@given(st.data(), st.sampled_from([None, 64, 400]))
def test_a_scan_into_polars_equals_the_naive_evaluator(data: st.DataObject, split: int | None) -> None:
    lived = data.draw(lived_tables(), label="table")
    lived = replace(lived, files=tuple(replace(file, file_format="parquet") for file in lived.files))
    predicate = data.draw(predicates(lived.schema, favourites=lived.changed), label="where")
    own = [field.name for field in lived.schema.fields]
    selections = st.lists(st.sampled_from([*own, *own, *METADATA_COLUMNS]), unique=True, max_size=6)
    names = data.draw(selections, label="select")
    batch_rows = data.draw(st.integers(1, 13), label="batch_rows")
    threads = data.draw(st.integers(1, 3), label="threads")
    everything = Schema(*lived.schema.fields, *METADATA_COLUMNS.values())
    output = Schema(*(everything.find_field(name) for name in names))
    with tempfile.TemporaryDirectory() as directory:
        table, files = lived.build(Path(directory))
        expected = naive.read(files, everything, predicate, output)
        scan = formatkit.scan(
            table, where=predicate, select=names, batch_rows=batch_rows, threads=threads, batch_type=pl.DataFrame
        )
        frames = list((in_splits(scan, split) if split else scan).to_batches())
        count = scan.count()
    note(str(scan.explain()))
    assert [frame for frame in frames if frame.height > batch_rows] == []
    assert [frame.columns for frame in frames] == [names] * len(frames)
    assert sum(frame.height for frame in frames) == count == len(expected)
    if names:
        found = (row for frame in frames for row in from_arrow(output, arrow_batch(output, frame)))
        assert comparable(found) == comparable(expected)
