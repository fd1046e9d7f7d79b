"""Flat columns that compiled code decodes, compared with what pyarrow decodes, which does not share any of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatkit.batches.compiled.loading import Payback
from formatkit.batches.compiled.zstd import NO_ZSTD
from formatkit.contract import ReadOptions
from formatkit.errors import FormatkitError
from formatkit.formats.orc import column_decoding, compression, text_columns
from formatkit.formats.orc.reader import OrcDataFile
from formatkit.formats.orc.stored_columns import FlatColumn, UnsuitableError
from formatkit.formats.orc.whole_columns import WholeColumns
from formatkit.kernel import bind
from support.orc_files import foreign, open_bytes, pyorc_bytes

_SMALL = st.integers(-3, 3)
_WORDS = st.sampled_from(["", "a", "Ulm", "Görlitz", "a rather long text, of more bytes than are copied at once"])
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "steps": (pa.int64(), _SMALL),
    "outliers": (pa.int64(), st.one_of(_SMALL, _SMALL, _SMALL, _SMALL, _SMALL, st.integers(-(2**40), 2**40))),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "narrow": (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2))),
    "wide": (pa.decimal128(38, 4), st.integers(-(10**28), 10**28).map(lambda n: Decimal(n).scaleb(-4))),
    "day": (pa.date32(), st.integers(-(2**20), 2**20)),
    "moment": (pa.timestamp("ns"), st.integers(-(2**61), 2**61)),
    "second": (pa.timestamp("ns"), st.integers(-(2**31), 2**31).map(lambda n: n * 10**9)),
    "text": (pa.string(), st.text(max_size=9)),
    "city": (pa.string(), _WORDS),
    "bytes": (pa.binary(), st.binary(max_size=30)),
}
"""Types, and values to choose from."""


_MIXED = "abcdefghijklmnopqrstuvwxyzäöü"
SOME: dict[str, Callable[[random.Random], Any]] = {
    "flag": lambda rng: rng.random() < 0.5,
    "byte": lambda rng: rng.randint(-128, 127),
    "int": lambda rng: rng.randint(-(2**31), 2**31 - 1),
    "long": lambda rng: rng.randint(-(2**63), 2**63 - 1),
    "outliers": lambda rng: rng.randint(-5, 5) if rng.random() < 0.95 else rng.randint(-(2**40), 2**40),
    "double": lambda rng: rng.gauss(0, 1),
    "wide": lambda rng: Decimal(rng.randint(-(10**27), 10**27)).scaleb(-4),
    "day": lambda rng: rng.randint(0, 20_000),
    "moment": lambda rng: rng.randint(-(2**61), 2**61),
    "text": lambda rng: "".join(rng.choices(_MIXED, k=rng.randrange(20))),
    "city": lambda rng: rng.choice(["Ulm", "Bonn", "", "Görlitz"]),
}
"""Values of types, the same in every run."""


@st.composite
def columns(draw: st.DrawFn) -> pa.Array[Any]:
    """A column: values of a pool, in runs, counted up, or each for itself."""
    kind, values = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    pool = draw(st.lists(values, min_size=1, max_size=40))
    rng = random.Random(draw(st.integers(0, 2**16)))
    nulls, runs = draw(st.sampled_from([0.0, 0.0, 0.02, 0.5, 1.0])), draw(st.sampled_from([1, 1, 4, 20, 600]))
    step = draw(st.sampled_from([0, 0, 1, -7, 1000])) if kind == pa.int64() else 0
    found: list[Any] = []
    for number in range(0, draw(st.integers(1, 2500)), runs):
        value = None if rng.random() < nulls else rng.choice(pool)
        if step and value is not None:
            value = value // 2 + step * number
        found += [value] * runs
    return pa.array(found, kind)


def layouts() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "compression": st.sampled_from(["uncompressed", "zlib", "snappy", "lz4", "zstd"]),
            "file_version": st.sampled_from(["0.11", "0.12", "0.12"]),
            "dictionary_key_size_threshold": st.sampled_from([0.0, 1.0]),
            "compression_block_size": st.sampled_from([65536, 262144]),
        }
    )


@pytest.fixture
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where pyarrow would have to decode."""

    monkeypatch.setattr(WholeColumns, "of", refuse)


def decoded(file: OrcDataFile, batch_rows: int) -> pa.ChunkedArray[Any]:
    batches = list(file.read(ReadOptions(projection=file.schema, batch_rows=batch_rows)).batches)
    assert all(batch.num_rows <= batch_rows for batch in batches)
    return pa.chunked_array([batch.column(0) for batch in batches], batches[0].schema.field(0).type)


def by_pyarrow(content: bytes, kind: pa.DataType) -> pa.ChunkedArray[Any]:
    column = pyarrow.orc.ORCFile(pa.BufferReader(content)).read().column(0)
    if pa.types.is_timestamp(kind):
        # Nanoseconds are cut off towards the past.
        micros = [None if value is None else value // 1000 for value in column.cast(pa.int64()).to_pylist()]
        return pa.chunked_array([pa.array(micros, pa.int64()).cast(kind)])
    return column.cast(kind)


@pytest.mark.usefixtures("nothing_else")
def test_any_column_is_decoded_as_pyarrow_decodes_it() -> None:
    @settings(max_examples=10 * settings().max_examples)
    @given(columns(), layouts(), st.sampled_from([1000, 100_000, 64, 7]))
    def check(column: pa.Array[Any], layout: dict[str, Any], batch_rows: int) -> None:
        content = foreign(pa.table([column], ["value"]), **layout)
        found = decoded(open_bytes(content), batch_rows)
        found.validate(full=True)
        assert found.equals(by_pyarrow(content, found.type))
        assert found.null_count == column.null_count

    check()


@pytest.mark.usefixtures("nothing_else")
@pytest.mark.parametrize("version", ["0.11", "0.12"])
@pytest.mark.parametrize("bits", range(1, 64))
def test_integers_of_every_width_are_decoded(bits: int, version: str) -> None:
    rng = np.random.default_rng(bits)
    values = rng.integers(-(1 << bits - 1), (1 << bits - 1) - 1, 3000, endpoint=True)
    # A few that are larger than the others are stored apart from them.
    values[::97] = rng.integers(-(1 << 62), 1 << 62, len(values[::97]))
    content = foreign(pa.table({"value": values}), file_version=version)
    assert decoded(open_bytes(content), 1111).to_pylist() == values.tolist()


@pytest.mark.usefixtures("nothing_else")
@pytest.mark.parametrize("has_dictionary", [False, True])
@pytest.mark.parametrize("has_nulls", [False, True])
@pytest.mark.parametrize("where", ["true", "id != 3", "text != 'x'"])
def test_texts_come_in_parts_that_fit_into_an_array(
    has_dictionary: bool, has_nulls: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_columns, "_MOST_TEXT_BYTES", 1000)
    rng = random.Random(f"{has_dictionary} {has_nulls}")
    words = ["", "x", *("y" * rng.randint(2, 900) for _ in range(30))]
    texts = [None if has_nulls and rng.random() < 0.3 else rng.choice(words) for _ in range(2000)]
    content = foreign(pa.table({"id": range(2000), "text": texts}), dictionary_key_size_threshold=float(has_dictionary))
    file = open_bytes(content)
    read = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, where)))
    batches = list(read.batches)
    leaves_out = {"true": (), "id != 3": (3,), "text != 'x'": {row for row, text in enumerate(texts) if text == "x"}}
    expected = [{"id": row, "text": text} for row, text in enumerate(texts) if row not in leaves_out[where]]
    assert [row for batch in batches for row in batch.to_pylist()] == expected
    if where == "true":
        assert all(sum(len(text or "") for text in batch["text"].to_pylist()) <= 1000 for batch in batches)


@pytest.mark.usefixtures("nothing_else")
def test_timestamps_that_nanoseconds_cannot_hold_are_decoded() -> None:
    moments = [datetime(year, 2, 3, 4, 5, 6, 7, tzinfo=UTC) for year in (1, 1600, 1969, 1970, 2015, 2300, 9999)]
    content = pyorc_bytes("struct<value:timestamp with local time zone>", [(moment,) for moment in moments])
    assert decoded(open_bytes(content), 3).to_pylist() == moments


@pytest.mark.usefixtures("nothing_else")
@pytest.mark.parametrize("scale", [0, 3, 9])
def test_decimals_may_each_have_a_scale_of_their_own(scale: int) -> None:
    values = [Decimal(number).scaleb(-scale) for number in (0, 1, -1, 10**8, -(10**8), 123456789)]
    content = foreign(pa.table({"value": pa.array(values, pa.decimal128(18, scale))}))
    # As if the column had a larger scale than its values are stored with: some writers leave zeros out.
    changed = content.replace(bytes((0x28, 18, 0x30, scale)), bytes((0x28, 18, 0x30, scale + 2)))
    assert changed != content
    assert decoded(open_bytes(changed), 100).to_pylist() == values


@pytest.mark.usefixtures("nothing_else")
def test_zstd_need_not_be_called_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "thread_zstd", lambda: NO_ZSTD)
    content = foreign(pa.table({"value": ["text"] * 3000}), compression="zstd")
    assert decoded(open_bytes(content), 100).to_pylist() == ["text"] * 3000


def outcome(content: bytes, batch_rows: int) -> pa.ChunkedArray[Any] | None:
    """What is read of a file, or None if it is refused."""
    try:
        return decoded(open_bytes(content), batch_rows)
    except (FormatkitError, UnsuitableError, IndexError):
        return None


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
@pytest.mark.parametrize("version", ["0.11", "0.12"])
@pytest.mark.parametrize("kind", sorted(SOME))
def test_damaged_streams_never_give_rows_that_pyarrow_would_not_give(
    kind: str, version: str, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{kind} {version} {compression}")
    values = [None if rng.random() < 0.1 else SOME[kind](rng) for _ in range(400)]
    content = foreign(
        pa.table([pa.array(values, TYPES[kind][0])], ["value"]), file_version=version, compression=compression
    )
    right, noticed = outcome(content, 150), 0
    assert right is not None
    stripe = open_bytes(content).split_offsets[0]
    for damaged in damaged_files(content, stripe, len(content) // 2, 100, rng):
        with monkeypatch.context() as patch:
            patch.setattr(WholeColumns, "of", refuse)
            found = outcome(damaged, rng.choice([60, 500]))
        if found is None:
            noticed += 1
        elif not same(found, right):
            with monkeypatch.context() as patch:
                patch.setattr(column_decoding, "PAYBACK", Payback("formatkit.formats", 1 << 60))
                expected = outcome(damaged, 500)
            assert expected is not None
            assert same(found, expected)
    assert noticed or kind == "double"


def same(left: pa.ChunkedArray[Any], right: pa.ChunkedArray[Any]) -> bool:
    """Whether they are equal, NaN being equal to itself."""
    return repr(left.cast(pa.string()).to_pylist()) == repr(right.cast(pa.string()).to_pylist())


def refuse(*_: Any) -> Any:
    raise UnsuitableError("pyarrow was asked")


def damaged_files(content: bytes, start: int, end: int, count: int, rng: random.Random) -> Iterator[bytes]:
    """The same file with some bytes from `start` to `end` changed, so many times."""
    for _ in range(count):
        changed = bytearray(content)
        for _ in range(rng.choice([1, 1, 3])):
            changed[rng.randrange(start, end)] = rng.choice([0, 1, 127, 255, rng.randrange(256)])
        yield bytes(changed)


def test_a_column_that_cannot_be_decoded_is_left_to_pyarrow_from_there_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": range(1000), "parts": [[n] * (n % 3) for n in range(1000)], "text": ["a", None] * 500})
    decode, calls = FlatColumn.next, []

    def refuse_fourth(self: FlatColumn, rows: int) -> Any:
        calls.append(rows)
        if len(calls) == 4:
            raise UnsuitableError("as if it were damaged")
        return decode(self, rows)

    monkeypatch.setattr(FlatColumn, "next", refuse_fourth)
    file = open_bytes(foreign(table))
    batches = list(file.read(ReadOptions(projection=file.schema, batch_rows=100)).batches)
    assert pa.Table.from_batches(batches).to_pylist() == table.to_pylist()
    # Of the second column it was asked twice, and of the other one for each batch.
    assert len(calls) == 10 + 2


@pytest.mark.parametrize("where", ["id >= 100 and text = 'b'", "id < 0", "text is null", "id > 990"])
def test_columns_are_filtered_step_by_step(where: str) -> None:
    texts = ["a", None, "b", "c"] * 250
    table = pa.table({"id": range(1000), "text": texts, "parts": [[n] * (n % 3) for n in range(1000)]})
    file = open_bytes(foreign(table))
    expected: Callable[[Any], bool] = {
        "id >= 100 and text = 'b'": lambda row: row["id"] >= 100 and row["text"] == "b",
        "id < 0": lambda row: False,
        "text is null": lambda row: row["text"] is None,
        "id > 990": lambda row: row["id"] > 990,
    }[where]
    options = ReadOptions(projection=file.schema, predicate=bind(file.schema, where), batch_rows=64)
    batches = list(file.read(options).batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [row for row in table.to_pylist() if expected(row)]
    assert all(batch.num_rows == 64 for batch in batches[:-1])
