"""A page whose header names another encoding than its values have gives the right rows or an error.

Values in plain encoding whose first byte is 0 can be read as indices of no bits, each of which means the first value of
the dictionary, if nobody looks at the bytes that are left.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import formatkit
from formatkit.errors import CorruptFileError
from formatkit.formats.parquet.read import page_check
from formatkit.io import MemorySource
from support.mutations.parquet_file import ParquetFile

ROWS, ROWS_FOR_COMPILED_CODE = 3000, 5000
ENCODINGS = {0: "plain", 2: "plain dictionary", 3: "runs", 5: "differences", 6: "lengths", 7: "prefixes"}
ENCODINGS |= {8: "dictionary", 9: "split"}
FIELDS: list[pa.Field[Any]] = [
    pa.field("number", pa.int64(), nullable=False),
    pa.field("long", pa.int64()),
    pa.field("int", pa.int32(), nullable=False),
    pa.field("double", pa.float64()),
    pa.field("text", pa.string()),
    pa.field("flag", pa.bool_()),
    pa.field("list", pa.list_(pa.int64())),
    pa.field("struct", pa.struct([("a", pa.int64())])),
]


@cache
def table(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    holes = numbers % 5 == 0
    return pa.table(
        {
            "number": pa.array(numbers),
            "long": pa.array(numbers * 256, mask=holes),
            "int": pa.array((numbers * 65536).astype(np.int32)),
            "double": pa.array(numbers.astype(np.float64), mask=holes),
            "text": pa.array(["" if number % 7 else f"{number}" for number in numbers.tolist()]),
            "flag": pa.array(numbers % 100 > 60, mask=holes),
            "list": pa.array([[number * 256] * (number % 3) for number in numbers.tolist()]),
            "struct": pa.array([{"a": number * 256} if number % 3 else None for number in numbers.tolist()]),
        },
        schema=pa.schema(FIELDS),
    )


def written(rows: int = ROWS, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    mixed = {"dictionary_pagesize_limit": 4000, "data_page_size": 4000, "write_batch_size": 500}
    pq.write_table(table(rows), sink, **{"compression": "zstd", "write_page_index": True, **mixed, **options})
    return sink.getvalue().to_pybytes()


LAYOUTS: dict[str, dict[str, Any]] = {
    "mixed": {},
    "mixed, pages of version 2": {"data_page_version": "2.0"},
    "mixed, uncompressed": {"compression": "none"},
    "mixed, snappy": {"compression": "snappy"},
    "plain": {"use_dictionary": False},
    "other encodings": {
        "use_dictionary": False,
        "column_encoding": {
            "number": "DELTA_BINARY_PACKED",
            "long": "BYTE_STREAM_SPLIT",
            "int": "DELTA_BINARY_PACKED",
            "double": "BYTE_STREAM_SPLIT",
            "text": "DELTA_LENGTH_BYTE_ARRAY",
            "flag": "RLE",
        },
    },
}


def swapped(data: bytes, *, with_counts: bool = True) -> Iterator[tuple[str, bytes]]:
    """The file with another encoding in the header of one page, for each page and encoding."""
    good = ParquetFile(data)
    if not with_counts:
        _drop_counts(good)
        data = good.to_bytes()
    for number, chunk in enumerate(good.chunks):
        # The first and last page of each encoding will do.
        places = {_encoding(page.header): place for place, page in reversed(list(enumerate(chunk.pages)))}
        places |= {-1 - _encoding(page.header): place for place, page in enumerate(chunk.pages)}
        for place in sorted(set(places.values())):
            for encoding, name in ENCODINGS.items():
                file = ParquetFile(data)
                header = file.chunks[number].pages[place].header
                if _encoding(header) != encoding:
                    _described(header)["encoding"].value = encoding
                    yield f"page {place} of chunk {number} as {name}", file.to_bytes()


def _described(header: Any) -> Any:
    names = ("data_page_header", "data_page_header_v2", "dictionary_page_header")
    return next(found for name in names if (found := header.get(name)) is not None)


def _encoding(header: Any) -> int:
    return int(_described(header)["encoding"].value)


def _drop_counts(file: ParquetFile) -> None:
    for chunk in file.chunks:
        described = chunk.record["meta_data"]
        described.value = [field for field in described.value if field.key != "encoding_stats"]


def all_rows(data: bytes) -> pa.Table:
    return formatkit.read_file(data).to_arrow()


def some_rows(data: bytes) -> pa.Table:
    return formatkit.read_file(data, where="number > 700 and number < 2900 and number != 1500").to_arrow()


class Remote(MemorySource):
    """Storage whose files are not those of pyarrow."""

    def open(self) -> BinaryIO:
        return io.BytesIO(bytes(self._data))


def all_rows_of_remote(data: bytes) -> pa.Table:
    return formatkit.read_file(Remote(data)).to_arrow()


def few_rows(data: bytes) -> pa.Table:
    return formatkit.read_file(data, where="number = 1500 or number = 2900").to_arrow()


def wrong_answers(good: bytes, read: Callable[[bytes], pa.Table], *, with_counts: bool = True) -> list[str]:
    right, wrong = read(good), []
    for what, data in swapped(good, with_counts=with_counts):
        try:
            if not read(data).equals(right):
                wrong.append(what)
        except CorruptFileError:
            continue
    return wrong


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_encoding_changes_no_rows(layout: str) -> None:
    assert wrong_answers(written(**LAYOUTS[layout]), all_rows) == []


@pytest.mark.parametrize("read", [all_rows_of_remote, some_rows, few_rows])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_another_encoding_changes_no_rows_of_parts(version: str, read: Callable[[bytes], pa.Table]) -> None:
    assert wrong_answers(written(data_page_version=version), read) == []


@pytest.mark.parametrize("layout", ["mixed, pages of version 2", "other encodings"])
def test_another_encoding_changes_no_rows_without_compiled_code(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_check, "are_ready", lambda _: False)
    assert wrong_answers(written(**LAYOUTS[layout]), all_rows) == []


def flat_rows(data: bytes) -> pa.Table:
    return formatkit.read_file(data, select=["number", "long", "int", "double", "text", "flag"]).to_arrow()


@pytest.mark.parametrize("layout", ["mixed", "mixed, pages of version 2", "plain"])
def test_another_encoding_of_flat_columns_changes_no_rows_where_no_footer_counts_pages(layout: str) -> None:
    good = written(ROWS_FOR_COMPILED_CODE, **LAYOUTS[layout])
    assert wrong_answers(good, flat_rows, with_counts=False) == []


@pytest.mark.parametrize("pages", [0, 1, 1000, 2**31 - 1])
def test_footers_that_count_other_pages_than_there_are_change_no_rows(pages: int) -> None:
    good = written()
    file = ParquetFile(good)
    for chunk in file.chunks:
        for entry in chunk.record["meta_data"]["encoding_stats"].value:
            entry["count"].value = pages
    assert all_rows(file.to_bytes()).equals(all_rows(good))
