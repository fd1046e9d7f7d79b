"""A page header that does not agree with its levels, values and row group gives the right rows or an error."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from functools import cache
from random import Random
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import formatkit
from formatkit.batches.compiled.loading import kernels
from formatkit.errors import CorruptFileError
from formatkit.formats.parquet.footer import read_footer
from formatkit.formats.parquet.kernels.numbers import Chunk
from formatkit.formats.parquet.page_content import KERNELS, address
from formatkit.formats.parquet.read.page_check import PageChecks
from formatkit.formats.parquet.read.page_headers import check_pages
from formatkit.io import MemorySource
from support.mutations.parquet import Mutant, changed, counts, mutants, pages
from support.mutations.parquet_file import ParquetFile

SEED = int(os.environ.get("DAMAGE_SEED", "7"))


@cache
def columns(rows: int) -> dict[str, pa.Array[Any]]:
    random = np.random.default_rng(3)
    numbers, holes = random.integers(0, 1 << 40, rows), random.random(rows) < 0.3
    lists = [list(range(number % 4)) for number in numbers.tolist()]
    return {
        "number": pa.array(np.arange(rows)),
        "long": pa.array(numbers, mask=holes),
        "full": pa.array(numbers, pa.int64()),
        "flag": pa.array(numbers % 3 == 0, mask=holes),
        "text": pa.array([f"v{number % 50}" for number in numbers.tolist()], mask=holes),
        "long_text": pa.array([f"{number:x}" for number in numbers.tolist()]),
        "double": pa.array(random.random(rows), mask=holes),
        "double_full": pa.array(random.random(rows)),
        "flag_full": pa.array(numbers % 3 == 0),
        "list": pa.array(lists),
        "struct": pa.array([{"a": number, "b": None} for number in numbers.tolist()]),
    }


def written(names: Iterable[str], rows: int, required: Iterable[str] = (), **options: Any) -> bytes:
    """A file of several pages per chunk; `required` columns have no levels."""
    arrays = columns(rows)
    fields = [pa.field(name, arrays[name].type, nullable=name not in required) for name in names]
    sink = pa.BufferOutputStream()
    table = pa.table([arrays[name] for name in names], schema=pa.schema(fields))
    settings: dict[str, Any] = {"compression": "zstd", "use_dictionary": False, "data_page_size": 1024, **options}
    pq.write_table(table, sink, write_batch_size=rows // 3, **settings)
    return sink.getvalue().to_pybytes()


class Remote(MemorySource):
    """Storage whose files are not those of pyarrow."""

    def open(self) -> BinaryIO:
        return io.BytesIO(bytes(self._data))


def wrong_answers(good: bytes, cases: Iterable[Mutant], read: Callable[[bytes], pa.Table]) -> list[str]:
    """Mutants that are read, and give other rows."""
    right, wrong = read(good), []
    for case in cases:
        try:
            if not read(case.data).equals(right):
                wrong.append(case.what)
        except CorruptFileError:
            continue
    return wrong


def all_rows(data: bytes) -> pa.Table:
    return formatkit.read_file(data).to_arrow()


def all_rows_of_remote(data: bytes) -> pa.Table:
    return formatkit.read_file(Remote(data)).to_arrow()


def some_rows(data: bytes) -> pa.Table:
    return formatkit.read_file(data, where="number > 1700 and number < 1900").to_arrow()


FLAT = ("long", "full", "flag", "text", "long_text", "double")
LAYOUTS: dict[str, Callable[..., bytes]] = {
    "plain, large": lambda **more: written(FLAT, 5000, ("full", "long_text"), **more),
    "plain, small": lambda **more: written(FLAT, 900, ("full", "long_text"), **more),
    "dictionary, large": lambda **more: written(("text", "long"), 5000, use_dictionary=True, **more),
    "nested": lambda **more: written(("list", "struct"), 600, **more),
    "other encodings": lambda **more: written(
        ("long", "long_text", "double"),
        900,
        column_encoding={"long": "DELTA_BINARY_PACKED", "long_text": "DELTA_BYTE_ARRAY", "double": "BYTE_STREAM_SPLIT"},
        **more,
    ),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "v1": {},
    "v1 with checksums": {"write_page_checksum": True},
    "v1 uncompressed": {"compression": "none"},
    "v2": {"data_page_version": "2.0"},
    "v2 uncompressed": {"data_page_version": "2.0", "compression": "none"},
}


def cases_of(good: bytes, count: int) -> list[Mutant]:
    found, random = list(counts(good)), Random(SEED)
    return random.sample(found, min(len(found), count)) + list(mutants(good, random, count))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_header_that_is_off_changes_no_rows(layout: str, variant: str) -> None:
    good = LAYOUTS[layout](**VARIANTS[variant])
    assert wrong_answers(good, cases_of(good, 16), all_rows) == []


@pytest.mark.parametrize("layout", ["plain, small", "nested", "plain, large"])
def test_pages_of_remote_storage_are_checked_while_they_are_read(layout: str) -> None:
    good = LAYOUTS[layout]()
    assert wrong_answers(good, cases_of(good, 16), all_rows_of_remote) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_pages_that_are_chosen_by_the_page_index_are_checked(variant: str) -> None:
    good = written(("number", *FLAT, "list"), 6000, ("number",), write_page_index=True, **VARIANTS[variant])
    assert wrong_answers(good, cases_of(good, 16), some_rows) == []


def test_a_repeated_column_is_checked_as_a_whole_where_pages_are_chosen() -> None:
    good = written(("number", "list"), 6000, ("number",), write_page_index=True)
    cases = [case for case in counts(good) if "num_values" in case.what and "list" in case.what]

    def rows_to_the_end_of_a_page(data: bytes) -> pa.Table:
        return formatkit.read_file(data, where="number >= 1000 and number < 1400").to_arrow()

    assert wrong_answers(good, cases, rows_to_the_end_of_a_page) == []


def test_counts_of_two_pages_that_cancel_out_are_noticed_where_values_do_not_fit_them() -> None:
    for rows in (900, 5000):
        good = written(("full",), rows, ("full",))
        first, second = pages(good)[:2]
        moved = changed(good, first, (5, 1), first.header[5][1] + 1)
        moved = changed(moved or b"", second, (5, 1), second.header[5][1] - 1)
        with pytest.raises(CorruptFileError, match="another number of values"):
            all_rows(moved or b"")


def test_a_chunk_that_has_other_values_than_its_row_group_has_rows_is_corrupt() -> None:
    good = written(("long",), 900)
    start = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    # As Thrift stores 900 and 899 in a field of 64 bits: it is the rows of the file and of the row group, and the
    # values of the chunk, which are the last of them.
    right, wrong = b"\x16\x88\x0e", b"\x16\x86\x0e"
    footer = good[start:]
    assert footer.count(right) == 3
    chunk = footer.index(right, footer.index(right) + 1)
    with pytest.raises(CorruptFileError, match="has 899 values, its row group 900 rows"):
        all_rows(good[:start] + footer[:chunk] + wrong + footer[chunk + 3 :])


@pytest.mark.parametrize("variant", VARIANTS)
def test_compiled_code_and_python_find_the_same_faults(variant: str) -> None:
    good = LAYOUTS["plain, small"](**VARIANTS[variant])
    footer = read_footer(MemorySource(good), None)
    leaves = list(range(len(FLAT)))
    for case in [Mutant("none", good), *Random(SEED).sample(list(counts(good)), 60)]:
        native = PageChecks(footer).chunks(footer.row_groups_at({0}), leaves).table
        slow, header = native.copy(), np.empty(12, np.int64)
        end = int(native[:, Chunk.END].max())
        data = pa.py_buffer(case.data)
        waiting = kernels(KERNELS).check_pages(data.address, 0, end, address(native), len(leaves), address(header))
        assert waiting == check_pages(memoryview(data)[:end], 0, slow), case.what
        assert (native[:, Chunk.FAULT] != 0).tolist() == (slow[:, Chunk.FAULT] != 0).tolist(), case.what


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("read", [all_rows, all_rows_of_remote])
def test_pages_that_do_not_count_their_nulls_are_read(layout: str, read: Callable[[bytes], pa.Table]) -> None:
    good = LAYOUTS[layout](data_page_version="2.0")
    data = good
    for page in pages(good):
        if 8 in page.header:
            # parquet-mr writes -1 where statistics are switched off.
            data = changed(data, page, (8, 2), -1) or b""
    assert data != good
    assert read(data).equals(read(good))


def test_a_null_count_below_minus_one_is_corrupt() -> None:
    good = LAYOUTS["plain, small"](data_page_version="2.0")
    with pytest.raises(CorruptFileError):
        all_rows(changed(good, pages(good)[0], (8, 2), -2) or b"")


def padded(rows: int, created_by: str, zeros: int, **options: Any) -> bytes:
    """A file of required columns whose pages have zeros behind their values, and that says who wrote it."""
    names = ("number", "full", "double_full", "flag_full")
    file = ParquetFile(written(names, rows, names, **options))
    file.footer["created_by"].value = created_by.encode()
    for page in (page for chunk in file.chunks for page in chunk.pages):
        page.body += bytes(zeros)
        page.header["uncompressed_page_size"].value += zeros
    return file.to_bytes()


@pytest.mark.parametrize("rows", [900, 6000])
@pytest.mark.parametrize("zeros", [0, 8])
@pytest.mark.parametrize("read", [all_rows, all_rows_of_remote, some_rows])
def test_zeros_that_fastparquet_adds_to_pages_are_left_out(
    rows: int, zeros: int, read: Callable[[bytes], pa.Table]
) -> None:
    options = {"compression": "none", "write_page_index": True}
    data = padded(rows, "fastparquet-python version 2026.9.0 (build 0)", zeros, **options)
    assert read(data).equals(read(padded(rows, "", 0, **options)))


def test_zeros_behind_values_are_corrupt_in_files_of_others() -> None:
    with pytest.raises(CorruptFileError, match="another number of values"):
        all_rows(padded(900, "parquet-cpp-arrow version 21.0.0", 8, compression="none"))
