"""Damaged files: a typed error or rows, and the process lives on."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from formatkit.contract import POS, OpenOptions, ReadOptions
from formatkit.errors import CorruptFileError, FormatkitError, StorageError
from formatkit.formats.arrow.reader import ArrowReader
from formatkit.tck.sources import CountingSource, FailingSource
from support.arrow_files import LAYOUTS, foreign, opened, rows_of

ROWS = 20
EVERY_FORM = pa.record_batch(
    {
        "int": pa.array([None if row % 7 == 0 else row for row in range(ROWS)], pa.int32()),
        "text": pa.array(["x" * (row % 9) for row in range(ROWS)]),
        "dictionary": pa.array(["abc"[row % 3] for row in range(ROWS)]).dictionary_encode(),
        "list": pa.array([[1, None] * (row % 3) if row % 4 else None for row in range(ROWS)], pa.list_(pa.int64())),
        "map": pa.array([[("a", 1)] if row % 2 else None for row in range(ROWS)], pa.map_(pa.string(), pa.int32())),
        "struct": pa.array([{"a": row, "b": str(row)} if row % 5 else None for row in range(ROWS)]),
        "view": pa.array([f"a long string view {row}" for row in range(ROWS)], pa.string_view()),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([9, ROWS], pa.int32()), pa.array(["p", "q"])),
        "list view": pa.array([[1] * (row % 3) for row in range(ROWS)], pa.list_view(pa.int16())),
        "decimal": pa.array(list(range(ROWS)), pa.decimal128(20, 2)),
        "null": pa.nulls(ROWS),
    }
)
FILES = [
    foreign([EVERY_FORM, EVERY_FORM.slice(3, 9)], layout, compression=codec)
    for layout in LAYOUTS
    for codec in (None, "lz4", "zstd")
]


def read_everything(data: bytes) -> None:
    file = opened(data)
    file.describe()
    for projection in (Schema(*file.schema.fields, POS), Schema(*file.schema.fields[2:4]), Schema()):
        for kind in rows_of(file, projection=projection, batch_rows=7):
            assert len(kind) == len(projection.fields)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_that_was_cut_anywhere_is_corrupt(layout: str) -> None:
    batch = pa.record_batch({"n": [1, 2, 3]})
    data = foreign([batch, batch], layout)
    for length in range(len(data)):
        with pytest.raises(CorruptFileError, match="<memory>"):
            read_everything(data[:length])


@given(
    file=st.sampled_from(FILES), flips=st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=8)
)
@settings(max_examples=3 * settings.default.max_examples)  # type: ignore[union-attr]
def test_changed_bytes_give_rows_or_a_typed_error(file: bytes, flips: list[tuple[int, int]]) -> None:
    data = bytearray(file)
    for place, mask in flips:
        data[place % len(data)] ^= mask
    with suppress(FormatkitError):
        read_everything(bytes(data))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_error_for_a_file_without_its_end_says_so(layout: str) -> None:
    data = foreign([pa.record_batch({"n": [1]})], layout)
    with pytest.raises(CorruptFileError, match="was cut or not finished"):
        opened(data[:-1])


def test_a_name_that_is_no_text_is_corrupt() -> None:
    data = foreign([pa.record_batch({"name": [1]})])
    with pytest.raises(CorruptFileError, match="utf-8"):
        opened(data.replace(b"name", b"na\xffe"))


def test_a_stream_that_ends_too_early_is_corrupt() -> None:
    batch = pa.record_batch({"n": [1, 2, 3]})
    data = foreign([batch, batch], "stream")
    second = data.rindex(b"\xff\xff\xff\xff", 0, len(data) - 8)
    # The length of a message overwritten with zero looks like the end.
    changed = data[: second + 4] + bytes(4) + data[second + 8 :]
    file = opened(changed)
    with pytest.raises(CorruptFileError, match="seems to end"):
        rows_of(file)


def test_a_record_batch_that_claims_more_rows_than_a_lifetime_can_read_is_corrupt() -> None:
    output = io.BytesIO()
    nothing: Any = pa.record_batch([pa.nulls(5)], names=["u"])
    with ipc.new_file(output, nothing.schema) as writer:
        writer.write_batch(nothing)
    lengthened = output.getvalue().replace((5).to_bytes(8, "little"), (2**40).to_bytes(8, "little"))
    with pytest.raises(CorruptFileError, match="claims to have 1099511627776 rows"):
        rows_of(opened(lengthened), projection=Schema())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_storage_that_fails_is_not_a_corrupt_file(layout: str) -> None:
    data = foreign([pa.record_batch({"a": list(range(100))})] * 9, layout)
    counted = CountingSource(data)
    assert count_rows(counted) == 900
    for reads in range(len(counted.reads)):
        with pytest.raises(StorageError, match="went away"):
            count_rows(FailingSource(data, after=reads))


def count_rows(source: CountingSource) -> int:
    file = ArrowReader().open(source, OpenOptions())
    with file.read(ReadOptions(projection=file.schema)).batches as batches:
        return sum(batch.num_rows for batch in batches)
