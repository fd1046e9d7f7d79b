"""The same rows, written in every format, answer the same questions alike: as the naive evaluator does."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, note, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema

import formatkit
from formatkit.contract import POS, Capability
from formatkit.registry import default_registry
from formatkit.tck import naive
from formatkit.tck.histories import histories
from formatkit.tck.kits import SMALL_CHUNKS
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from formatkit.tck.strategies import predicates, rows
from support.lived_tables import in_splits, installed_formats

# Six formats an example, so fewer examples: 50 in CI.
SELDOM = settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]


@SELDOM
@given(st.data())
def test_all_formats_give_the_rows_of_the_naive_evaluator(data: st.DataObject) -> None:
    versions = data.draw(histories(most_changes=3), label="history")
    stored, current = versions[0], versions[-1]
    written = data.draw(rows(stored, min_size=1), label="rows")
    predicate = data.draw(predicates(current), label="where")
    names = data.draw(st.lists(st.sampled_from([f.name for f in current.fields]), unique=True), label="select")
    split_bytes = data.draw(st.integers(64, 1000), label="split")
    batch_rows = data.draw(st.integers(1, 13), label="batch rows")
    select = [*names, "_pos"]
    everything = Schema(*current.fields, POS)
    output = Schema(*(everything.find_field(name) for name in select))
    file = naive.File(schema=stored, rows=written)
    expected = comparable(naive.read([file], everything, predicate, output))
    with tempfile.TemporaryDirectory() as directory:
        for file_format in installed_formats(stored):
            note(file_format)
            path = Path(directory) / f"file.{file_format}"
            formatkit.write_file(path, to_arrow(stored, written), stored, properties=SMALL_CHUNKS)
            scan = formatkit.read_file(path, predicate, select, current, batch_rows=batch_rows)
            assert answer(scan, output) == expected
            if Capability.SPLIT in default_registry().plugin(file_format, pa.RecordBatch).capabilities:
                assert answer(in_splits(scan, split_bytes), output) == expected


def answer(scan: formatkit.Scan[pa.RecordBatch], output: Schema) -> list[str]:
    return comparable(from_arrow(output, scan.to_arrow()))


@SELDOM
@given(st.data())
def test_all_formats_report_the_same_metrics(data: st.DataObject) -> None:
    (schema,) = data.draw(histories(most_changes=0), label="schema")
    table = to_arrow(schema, data.draw(rows(schema, min_size=1), label="rows"))
    with tempfile.TemporaryDirectory() as directory:
        found = {name: metrics(Path(directory) / f"file.{name}", table, schema) for name in installed_formats(schema)}
    assert all(other == found["parquet"] for other in found.values()), found


def metrics(path: Path, table: pa.Table, schema: Schema) -> dict[str, Any]:
    written = formatkit.write_file(path, table, schema)
    assert written is not None
    assert written.size_bytes == path.stat().st_size
    described = written.to_data_file()
    kinds = ["record_count", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"]
    return {kind: getattr(described, kind) for kind in kinds}
