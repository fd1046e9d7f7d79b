"""Every installed format keeps the clauses of the contract, on random schemas, rows and predicates.

Nothing here knows a format by name. Truth is the rows themselves and the naive evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import (
    POS,
    Capability,
    FormatFile,
    FormatPlugin,
    OpenOptions,
    ReadOptions,
    Split,
    WriteOptions,
)
from formatkit.errors import UnsupportedError
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind
from formatkit.registry import default_registry
from formatkit.tck import naive
from formatkit.tck.histories import histories
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from formatkit.tck.strategies import predicates, rows

Plugin = FormatPlugin[pa.RecordBatch]
PLUGINS = [plugin for plugin in default_registry().plugins() if plugin.batch_type is pa.RecordBatch]

every_format = pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.file_format)
schemas = histories(most_changes=0).map(lambda versions: versions[0])


def write(plugin: Plugin, schema: Schema, table: pa.Table, batch_rows: int) -> bytes | None:
    sink = MemorySink()
    # The smallest chunks that a format offers, so that there is something to skip and to split.
    properties = {"write.parquet.row-group-limit": "3", "write.parquet.page-row-limit": "2"}
    with plugin.writer().open(sink, WriteOptions(schema=schema, properties=properties)) as writer:
        for batch in table.to_batches(max_chunksize=batch_rows):
            writer.write(batch)
        result = writer.close()
    assert (result is None) == (table.num_rows == 0)
    if result is not None:
        assert sink.data is not None
        assert (result.row_count, result.size_bytes) == (table.num_rows, len(sink.data))
    return sink.data


def read(file: FormatFile[pa.RecordBatch], options: ReadOptions, schema: Schema) -> list[dict[int, Any]]:
    """The rows that are left when the residual was applied, by the ids of a schema with the same columns."""
    result = file.read(options)
    keep = ArrowBatch().filter(options.projection, result.residual)
    found: list[dict[int, Any]] = []
    with result.batches as batches:
        for batch in batches:
            assert 0 <= batch.num_rows <= options.batch_rows
            assert batch.num_columns == len(options.projection.fields)
            found += from_arrow(schema, keep(batch))
    return found


def splits(size: int, cuts: list[int]) -> Iterator[Split]:
    bounds = sorted({0, size, *(cut % size for cut in cuts)})
    return (Split(start, end - start) for start, end in pairwise(bounds))


@every_format
@given(data=st.data())
def test_rows_that_match_come_back_once_with_their_positions(plugin: Plugin, data: st.DataObject) -> None:
    schema = data.draw(schemas, label="schema")
    written = data.draw(rows(schema), label="rows")
    predicate = data.draw(st.just(AlwaysTrue()) | predicates(schema), label="predicate")
    batch_rows = data.draw(st.integers(1, 13), label="batch rows")
    cuts = data.draw(st.lists(st.integers(0, 1 << 20), max_size=3), label="cuts")
    stored = write(plugin, schema, to_arrow(schema, written), batch_rows)
    if stored is None:
        assert written == []
        return
    expected = [
        {**row, POS.field_id: position} for position, row in enumerate(written) if naive.matches(row, schema, predicate)
    ]
    source = MemorySource(stored)
    file = plugin.reader().open(source, OpenOptions())
    try:
        assert file.row_count in (None, len(written))
        keeps_ids = Capability.FIELD_IDS in plugin.capabilities
        assert not keeps_ids or file.schema.field_ids == schema.field_ids
        # A format may have to store other names than the table's, so names are used only where there are no ids.
        bound = bind(schema if keeps_ids else file.schema, predicate)
        output = Schema(*schema.fields, POS)
        options = ReadOptions(projection=Schema(*file.schema.fields, POS), predicate=bound, batch_rows=batch_rows)
        assert comparable(read(file, options, output)) == comparable(expected)
        if Capability.SPLIT in plugin.capabilities:
            parts = [read(file, replace(options, split=split), output) for split in splits(len(stored), cuts)]
            assert comparable(row for part in parts for row in part) == comparable(expected)
    finally:
        file.close()
        source.close()


@every_format
@given(data=st.data())
def test_only_the_columns_that_are_asked_for_come_back(plugin: Plugin, data: st.DataObject) -> None:
    schema = data.draw(schemas, label="schema")
    written = data.draw(rows(schema, min_size=1), label="rows")
    wanted = data.draw(st.sets(st.integers(0, len(schema.fields) - 1)), label="columns")
    stored = write(plugin, schema, to_arrow(schema, written), batch_rows=100)
    assert stored is not None
    source = MemorySource(stored)
    file = plugin.reader().open(source, OpenOptions())
    try:
        projection = Schema(*(file.schema.fields[index] for index in sorted(wanted)))
        with file.read(ReadOptions(projection=projection)).batches as batches:
            found = list(batches)
    finally:
        file.close()
        source.close()
    assert sum(batch.num_rows for batch in found) == len(written)
    expected = [[row[schema.fields[index].field_id] for index in sorted(wanted)] for row in written]
    actual = [list(row.values()) for batch in found for row in from_arrow(projection, batch)] if wanted else expected
    assert comparable(actual) == comparable(expected)


@every_format
def test_an_aborted_file_leaves_nothing_behind(plugin: Plugin) -> None:
    schema, table = one_row()
    sink = MemorySink()
    writer = plugin.writer().open(sink, WriteOptions(schema=schema))
    writer.write(table.to_batches()[0])
    writer.abort()
    assert sink.data is None


@every_format
def test_closing_twice_gives_the_same_result(plugin: Plugin) -> None:
    schema, table = one_row()
    writer = plugin.writer().open(MemorySink(), WriteOptions(schema=schema))
    writer.write(table.to_batches()[0])
    assert writer.close() is writer.close()


@every_format
def test_a_split_that_is_not_declared_is_refused(plugin: Plugin) -> None:
    schema, table = one_row()
    stored = write(plugin, schema, table, batch_rows=1)
    assert stored is not None
    file = plugin.reader().open(MemorySource(stored), OpenOptions())
    options = ReadOptions(projection=file.schema, split=Split(0, 1))
    if Capability.SPLIT in plugin.capabilities:
        assert len(read(file, options, schema)) <= 1
    else:
        with pytest.raises(UnsupportedError):
            file.read(options)
    file.close()


def one_row() -> tuple[Schema, pa.Table]:
    schema = Schema(NestedField(1, "a", LongType()))
    return schema, to_arrow(schema, [{1: 7}])
