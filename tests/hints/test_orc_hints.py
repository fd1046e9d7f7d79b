"""No lie about an ORC file that can be told from the file changes the answer of a filter."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hints.edits import tell_one
from hints.orc_lies import section_lies, statistics_lies, writer_lies
from hints.truth import CHUNK, ROWS, SCHEMA, SETTINGS, asked, filters, found, right, table
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import BooleanExpression

import formatkit
from formatkit.contract import OpenOptions, ReadOptions
from formatkit.formats.orc.reader import OrcReader
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind
from support import orc_files
from support.mutations.orc_file import OrcFile

# 500 examples in CI.
OFTEN = settings(SETTINGS, max_examples=5 * settings.default.max_examples)  # type: ignore[union-attr]
TYPES = (
    "",
    *["id", "text", "number", "price", "day", "flag", "raw", "moment", "small"],
    "point",
    "point.x",
    "point.y",
    "tags",
    "",
)
"""The columns by the numbers of their types."""


def _ours() -> bytes:
    sink = MemorySink()
    # Stripes end only behind text that is never null, so that there is some.
    rows = table(ids=True)
    assert formatkit.write_file(sink, rows, SCHEMA, "orc", properties=orc_files.stripes_of(CHUNK))
    assert sink.data is not None
    return sink.data


def _pyarrow() -> bytes:
    return orc_files.foreign(table(), stripe_size=1, batch_size=CHUNK, compression="uncompressed")


def _pyorc() -> bytes:
    kinds = "id:bigint,text:string,number:double,price:decimal(9,2),day:date,flag:boolean,raw:binary,moment:timestamp"
    schema = f"struct<{kinds},small:int,point:struct<x:bigint,y:string>,tags:array<bigint>>"
    rows = [tuple(_plain(value) for value in row.values()) for row in table().to_pylist()]
    return orc_files.pyorc_bytes(schema, rows, stripe_size=1, batch_size=CHUNK, compression=1)


def _plain(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value


FILES: Mapping[str, Callable[[], bytes]] = {"formatkit": _ours, "pyarrow": _pyarrow, "pyorc": _pyorc}


@cache
def good(name: str) -> bytes:
    return FILES[name]()


@cache
def _taken_apart(name: str) -> bytes:
    return pickle.dumps(OrcFile(good(name)))


def answer(data: bytes, predicate: BooleanExpression) -> tuple[list[Any], Mapping[str, int]]:
    """What a filter returns, and what was counted."""
    file = OrcReader().open(MemorySource(data), OpenOptions())
    bound = bind(file.schema, predicate)
    result = file.read(ReadOptions(projection=asked(file.schema, predicate), predicate=bound))
    with result.batches as batches:
        return found(list(batches)), result.counters


@pytest.mark.parametrize("name", FILES)
def test_files_are_good(name: str) -> None:
    file = OrcReader().open(MemorySource(good(name)), OpenOptions())
    result = file.read(ReadOptions(projection=file.schema))
    with result.batches as batches:
        assert found(list(batches)) == [(row[1], row[2], row[13]) for row in ROWS]


@OFTEN
@given(st.data())
def test_no_lie_changes_an_answer(data: st.DataObject) -> None:
    parts: OrcFile = pickle.loads(_taken_apart(data.draw(st.sampled_from(list(FILES)), label="file")))
    number = data.draw(st.integers(0, 99), label="stripe") % len(parts.stripes)
    stripe, rows = parts.metadata.value[number], parts.stripes[number].record["numberOfRows"].value
    column = data.draw(st.integers(1, len(TYPES) - 3), label="column")
    kind = data.draw(st.sampled_from(["column", "column", "column", "section", "writer"]))
    stats = stripe.value[column]
    tell_one(
        data,
        list(
            statistics_lies(stats, rows, nested="." in TYPES[column])
            if kind == "column"
            else section_lies(parts, stripe)
            if kind == "section"
            else writer_lies(parts, stats)
        ),
    )
    changed = parts.to_bytes()
    named = filters(TYPES[column]) if TYPES[column] not in ("point", "") else filters()
    for predicate in data.draw(st.lists(named | filters(), min_size=1, max_size=3), label="where"):
        assert answer(changed, predicate)[0] == right(predicate), predicate


def test_a_file_without_row_indexes_keeps_its_rows() -> None:
    plain = pa.table({"a": pa.array(range(1000)), "b": pa.array([f"b{number}" for number in range(1000)])})
    parts = OrcFile(orc_files.foreign(plain))
    for stats in parts.metadata.value[0].value[1:]:
        dict(statistics_lies(stats, 1000, nested=False))["no values and no nulls"]()
    file = orc_files.open_bytes(parts.to_bytes())
    assert len(orc_files.read_rows(file, where="a is not null")) == 1000
    assert orc_files.read_rows(file, where="b = 'b7'") == [{"a": 7, "b": "b7"}]
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, "a = 7 and b = 'b7'")))
    assert result.counters["statistics_dropped"] == 2


def test_a_stripe_with_bounds_has_values() -> None:
    parts = OrcFile(orc_files.foreign(pa.table({"a": [math.nan, 1.0, None]})))
    dict(statistics_lies(parts.metadata.value[0].value[1], 3, nested=False))["no values beside bounds"]()
    file = orc_files.open_bytes(parts.to_bytes())
    assert orc_files.read_rows(file, where="a is null") == [{"a": None}]
    assert orc_files.read_rows(file, where="a = 1") == [{"a": 1.0}]


@pytest.mark.parametrize("with_has_null", [True, False])
@pytest.mark.parametrize("with_root", [True, False])
def test_fields_of_structs_without_row_indexes_keep_their_rows(*, with_root: bool, with_has_null: bool) -> None:
    plain = pa.table({"s": [{"n": number, "in": {"m": number}} for number in range(1000)]})
    parts = OrcFile(orc_files.foreign(plain))
    for stats in parts.metadata.value[0].value[0 if with_root else 1 :]:
        dict(statistics_lies(stats, 1000, nested=True))["no values and no nulls"]()
        if with_root and not with_has_null:
            stats.value = [part for part in stats.value if part.key != "hasNull"]
    file = orc_files.open_bytes(parts.to_bytes())
    for name in ("s", "s.n", "s.in", "s.in.m"):
        assert orc_files.read_rows(file, where=f"{name} is null") == []
        assert len(orc_files.read_rows(file, where=f"{name} is not null")) == 1000
    assert len(orc_files.read_rows(file, where="s.in.m = 7 or s.n = 8")) == 2
