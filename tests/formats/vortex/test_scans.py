"""Scans of Vortex files: what is pushed down is exact, what is skipped is not read, and splits tile the file."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzType,
    UUIDType,
)

import formatkit
from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import POS, OpenOptions, ReadOptions
from formatkit.formats.vortex.decoding import RowRange, Scan
from formatkit.formats.vortex.plugin import VortexFormat
from formatkit.io import LocalSource
from formatkit.kernel import bind
from formatkit.tck import naive
from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.strategies import leaf_types, predicates, rows
from support.plugin_files import CountingSource, opened, read_rows, tiles, write_rows, write_table

PLUGIN = VortexFormat()
ROWS = 150_000


def big_table() -> pa.Table:
    """Zones of one value, of NaN, of nulls, of both zeros, and of everything."""
    random = np.random.default_rng(5)
    number = np.arange(ROWS)
    value = random.choice([-0.0, 0.0, 1.5, math.nan, math.inf, -math.inf], ROWS)
    value[:20_000], value[20_000:40_000], value[40_000:60_000] = math.nan, 0.0, -0.0
    word = random.choice(["", "a", "ab", "b", "ä", "\uffff", "\U0001f600"], ROWS)
    word[:20_000] = "ab"
    nulls = (number >= 60_000) & (number < 90_000) | (random.random(ROWS) < 0.1)
    struct_nulls = random.random(ROWS) < 0.2
    struct = pa.StructArray.from_arrays([pa.array(number % 7)], ["n"], mask=pa.array(struct_nulls))
    return pa.table(
        [pa.array(number), pa.array(value, mask=nulls), pa.array(word, mask=nulls), struct],
        names=["id", "x", "w", "s"],
    )


SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "x", DoubleType()),
    NestedField(3, "w", StringType()),
    NestedField(4, "s", StructType(NestedField(5, "n", LongType()))),
)
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
PUSHED = [
    "id < 10",
    f"id >= {ROWS - 10}",
    *(f"x {operator} {value}" for operator in COMPARISONS for value in ("0.0", "1.5")),
    *(f"w {operator} 'ä'" for operator in COMPARISONS),
    "x in (0.0, 1.5)",
    "x not in (-0.0, 1.5)",
    "x is nan",
    "x is not nan",
    "x is null",
    "x is not null",
    "s is null",
    "s is not null",
    "s.n is null",
    "s.n = 3",
    "s.n != 3",
    "w like 'a%'",
    "w not like 'a%'",
    "w like '%'",
    "w not like '%'",
    "w like '\uffff%'",
    "w in ('ab', 'b', 'zz')",
    "w not in ('ab', 'b')",
    "id > 100000 and (x is nan or w = 'b')",
]


@pytest.fixture(scope="module")
def big() -> bytes:
    return write_table(PLUGIN, SCHEMA, big_table())


def test_columns_without_values_have_no_nan() -> None:
    schema = Schema(
        NestedField(1, "x", DoubleType()), NestedField(2, "s", StructType(NestedField(3, "y", DoubleType())))
    )
    data = write_rows(PLUGIN, schema, [{1: None, 2: {3: None}}] * 5)
    for where, count in (("x is nan", 0), ("s.y is nan", 0), ("not x is nan", 5), ("x is nan or s.y is null", 5)):
        assert formatkit.read_file(data, where, file_format="vortex").count() == count


@pytest.mark.parametrize("predicate", PUSHED)
def test_what_is_pushed_down_finds_exactly_the_rows_that_match(big: bytes, predicate: str) -> None:
    bound = bind(SCHEMA, predicate)
    wanted = ArrowBatch().filter(SCHEMA, bound)(big_table().combine_chunks().to_batches()[0])
    with opened(PLUGIN, big) as file:
        for projection in (file.schema, Schema(*file.schema.fields, POS)):
            result = file.read(ReadOptions(projection=projection, predicate=bound))
            assert result.residual == AlwaysTrue()
            with result.batches as batches:
                found = list(batches)
            assert [row for batch in found for row in batch.column(0).to_pylist()] == wanted.column(0).to_pylist()
            if projection.fields[-1] == POS:
                assert all(batch.column(4) == batch.column(0) for batch in found)


@pytest.mark.parametrize("leaf", [UUIDType(), TimestamptzType(), TimestampNanoType()], ids=str)
@given(data=st.data())
def test_literals_of_types_that_are_stored_otherwise_are_pushed_down(leaf: PrimitiveType, data: st.DataObject) -> None:
    check_leaf(leaf, data)


@given(leaf=leaf_types(), data=st.data())
def test_every_leaf_type_is_filtered_exactly(leaf: PrimitiveType, data: st.DataObject) -> None:
    check_leaf(leaf, data)


def check_leaf(leaf: PrimitiveType, data: st.DataObject) -> None:
    schema = Schema(NestedField(1, "a", leaf), NestedField(2, "s", StructType(NestedField(3, "b", leaf))))
    written = data.draw(rows(schema, min_size=1), label="rows")
    predicate = data.draw(predicates(schema), label="predicate")
    expected = [row for row in written if naive.matches(row, schema, predicate)]
    with opened(PLUGIN, write_rows(PLUGIN, schema, written)) as file:
        assert comparable(read_rows(file, where=predicate)) == comparable(expected)


def test_what_cannot_be_pushed_down_is_left_and_the_rest_is_done(big: bytes) -> None:
    many = f"id in ({', '.join(map(str, range(0, 2000, 2)))})"
    predicate = bind(SCHEMA, f"{many} and id < 10")
    with opened(PLUGIN, big) as file:
        result = file.read(ReadOptions(projection=file.schema, predicate=predicate))
        assert result.residual == bind(SCHEMA, many)
        with result.batches as batches:
            assert [value for batch in batches for value in batch.column(0).to_pylist()] == list(range(10))
        nothing = file.read(ReadOptions(projection=file.schema, predicate=AlwaysFalse()))
        assert list(nothing.batches) == []


def test_parts_and_columns_that_are_not_wanted_are_not_read() -> None:
    schema = Schema(SCHEMA.fields[0], SCHEMA.fields[1])
    noise = np.random.default_rng(1).random(500_000)
    stored = write_table(PLUGIN, schema, pa.table({"id": np.arange(len(noise)), "x": noise}))

    def bytes_read(**options: Any) -> int:
        source = CountingSource(stored)
        with opened(PLUGIN, source) as file, file.read(ReadOptions(**options)).batches as batches:
            list(batches)
        return source.bytes_read

    whole = bytes_read(projection=schema)
    assert bytes_read(projection=Schema(schema.fields[0])) < whole / 4
    assert bytes_read(projection=schema, predicate=bind(schema, "x < -1.0")) < whole / 4


@given(cuts=st.lists(st.floats(0, 1), max_size=6), batch_rows=st.sampled_from([1000, 32_768]))
def test_splits_that_tile_the_file_give_each_row_once(big: bytes, cuts: list[float], batch_rows: int) -> None:
    ids = Schema(SCHEMA.fields[0], POS)
    with opened(PLUGIN, big) as file:
        found: list[Any] = []
        for split in tiles(len(big), [int(cut * len(big)) for cut in cuts]):
            with file.read(ReadOptions(projection=ids, split=split, batch_rows=batch_rows)).batches as batches:
                for batch in batches:
                    assert batch.num_rows <= batch_rows
                    assert batch.column(0).to_pylist() == batch.column(1).to_pylist()
                    found += batch.column(0).to_pylist()
    assert found == list(range(ROWS))


def test_a_split_for_each_offset_holds_a_chunk(big: bytes) -> None:
    with opened(PLUGIN, big) as file:
        offsets = file.split_offsets
        assert len(offsets) == file.describe()["chunks"] > 2
        for split in tiles(len(big), offsets):
            assert 0 < len(read_rows(file, Schema(SCHEMA.fields[0]), split=split)) < ROWS


@pytest.mark.parametrize("predicate", ["true", "id != 70"])
def test_batches_whose_text_does_not_fit_into_an_array_are_made_smaller(
    big: bytes, predicate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Vortex says of 2 GiB of text in a batch is said of batches of more than 1,000 rows, behind the first one."""
    decoded = Scan._decoded_batches

    def limited(self: Scan, rows: RowRange, condition: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(decoded(self, rows, condition, batch_rows)):
            if number and batch_rows > 1_000:
                raise pa.ArrowInvalid("External error: Other error: Byte offset 2162688000 does not fit in i32")
            yield batch

    options = ReadOptions(projection=SCHEMA, predicate=bind(SCHEMA, predicate), batch_rows=10_000)
    with opened(PLUGIN, big) as file:
        expected = pa.Table.from_batches(list(file.read(options).batches))
        monkeypatch.setattr(Scan, "_decoded_batches", limited)
        found = pa.Table.from_batches(list(file.read(options).batches))
    # NaN does not equal itself.
    assert found.drop_columns("x").equals(expected.drop_columns("x"))


def test_threads_may_share_an_open_file(big: bytes) -> None:
    with opened(PLUGIN, big) as file, ThreadPoolExecutor(4) as pool:
        splits = tiles(len(big), file.split_offsets)
        counts = pool.map(lambda split: len(read_rows(file, Schema(SCHEMA.fields[0]), split=split)), splits)
        assert sum(counts) == ROWS


def test_a_scan_that_is_left_early_keeps_nothing_open(big: bytes, tmp_path: Path) -> None:
    path = tmp_path / "big.vortex"
    path.write_bytes(big)

    source = LocalSource(path)
    file = PLUGIN.reader().open(source, OpenOptions())
    with file.read(ReadOptions(projection=file.schema, batch_rows=100)).batches as batches:
        first = next(batches)
    file.close()
    source.close()
    assert path not in [handle.resolve() for handle in Path("/proc/self/fd").iterdir()]
    assert len(from_arrow(SCHEMA, first)) == 100


def test_a_forked_process_reads_what_its_parent_read(big: bytes, tmp_path: Path) -> None:
    # In an interpreter of its own: the one that runs the tests may have grown too large to be forked.
    path = tmp_path / "big.vortex"
    path.write_bytes(big)
    program = f"""
import os, formatkit
def read():
    return formatkit.read_file({str(path)!r}).to_arrow().num_rows
assert read() == {ROWS}
child = os.fork()
if not child:
    os._exit(0 if read() == {ROWS} else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (outcome.stdout, outcome.returncode) == ("0\n", 0), outcome.stderr
