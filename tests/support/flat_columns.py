"""Parquet files of one flat column: random types, values and layouts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

__all__ = ["TYPES", "columns", "damaged_files", "layouts", "some_values", "written"]

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "few": (pa.int64(), st.integers(0, 5)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "narrow": (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2))),
    "middle": (pa.decimal128(18, 3), st.integers(-(10**18) + 1, 10**18 - 1).map(lambda n: Decimal(n).scaleb(-3))),
    "wide": (pa.decimal128(38, 4), st.integers(-(10**28), 10**28).map(lambda n: Decimal(n).scaleb(-4))),
    "day": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "moment": (pa.timestamp("us", "UTC"), st.integers(-(2**50), 2**50)),
    "nanos": (pa.timestamp("ns"), st.integers(-(2**60), 2**60)),
    "text": (pa.string(), st.text(max_size=9)),
    "city": (pa.string(), st.sampled_from(["", "a", "Ulm", "Görlitz"])),
    "bytes": (pa.binary(), st.binary(max_size=30)),
    "code": (pa.binary(3), st.binary(min_size=3, max_size=3)),
}
"""Types, and values to choose from; the larger half of a column's values is drawn from a few of them."""


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], bool]:
    """A type, some values, and whether the column is required."""
    kind, values = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    pool = draw(st.lists(values, min_size=1, max_size=12))
    required = draw(st.booleans())
    seed = draw(st.integers(0, 2**16))
    nulls = 0.0 if required else draw(st.sampled_from([0.0, 0.02, 0.5, 1.0]))
    runs = draw(st.sampled_from([1, 1, 7, 100]))
    rng = random.Random(seed)
    found: list[Any] = []
    for _ in range(0, draw(st.integers(1, 700)), runs):
        value = None if rng.random() < nulls else rng.choice(pool)
        found += [value] * runs
    return kind, found, required


def layouts() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "compression": st.sampled_from(["none", "snappy", "gzip", "zstd"]),
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
            "use_dictionary": st.booleans(),
            "dictionary_pagesize_limit": st.sampled_from([20, 10_000]),
            "data_page_size": st.sampled_from([10, 300, 100_000]),
            "write_batch_size": st.sampled_from([7, 64]),
            "write_page_index": st.booleans(),
            "store_decimal_as_integer": st.booleans(),
        }
    )


def written(kind: pa.DataType, values: list[Any], required: bool, **layout: Any) -> bytes:
    schema = pa.schema([pa.field("value", kind, nullable=not required)])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([pa.array(values, kind)], schema=schema), sink, **layout)
    return sink.getvalue().to_pybytes()


def some_values(kind: str, count: int, rng: random.Random) -> list[Any]:
    """Values of a type, a tenth of them null, the same in every run."""
    pool = [_example(TYPES[kind][1], rng) for _ in range(9)]
    return [None if rng.random() < 0.1 else rng.choice(pool) for _ in range(count)]


def _example(strategy: st.SearchStrategy[Any], rng: random.Random) -> Any:
    """One value, the same in every run."""
    found: list[Any] = []

    @settings(max_examples=20, derandomize=True, database=None)
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return rng.choice(found)


def damaged_files(content: bytes, count: int, rng: random.Random) -> Iterator[bytes]:
    """The same file with some bytes of its only column chunk changed, so many times."""
    chunk = pq.read_metadata(pa.BufferReader(content)).row_group(0).column(0)
    start, length = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size
    for _ in range(count):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 3])):
            damaged[start + rng.randrange(length)] = rng.choice([0, 1, 127, 255, rng.randrange(256)])
        yield bytes(damaged)
