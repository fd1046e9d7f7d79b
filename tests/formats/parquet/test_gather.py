"""Values that are taken out of pages one by one are those that pyarrow decodes."""

from __future__ import annotations

import io
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

import formatkit
from formatkit.batches.compiled import loading, zstd
from formatkit.batches.compiled.loading import Payback, kernels
from formatkit.batches.compiled.zstd import NO_ZSTD, thread_zstd
from formatkit.contract import ReadOptions
from formatkit.formats.parquet import gather, page_content, page_reader
from formatkit.formats.parquet.elements import Repetition
from formatkit.formats.parquet.footer import Footer, RowGroup, read_footer
from formatkit.formats.parquet.gather import ColumnGatherer
from formatkit.formats.parquet.gathered_types import arrow_type
from formatkit.formats.parquet.kernels.numbers import OTHER_CODEC
from formatkit.formats.parquet.page_content import KERNELS, UnsuitableError
from formatkit.formats.parquet.page_reader import PageReader
from formatkit.formats.parquet.pruning.page_index import ChunkIndex, PageIndexError
from formatkit.io import MemorySource
from formatkit.kernel import bind
from support.flat_columns import TYPES, columns, damaged_files, layouts, some_values, written
from support.parquet_reading import open_bytes


def gathered(content: bytes, rows: list[int]) -> pa.Array[Any]:
    """The values at some rows of the only column and row group. Raises `UnsuitableError`."""
    source = MemorySource(content)
    footer = read_footer(source, None)
    footer.require_sound_chunks()
    return gatherer(source, footer, footer.row_groups[0]).at(np.array(rows, np.int64))


def gatherer(source: MemorySource, footer: Footer, row_group: RowGroup) -> ColumnGatherer:
    element = footer.columns.columns[0].element
    record = footer.chunk_record(row_group, 0)
    assert element is not None
    assert record is not None
    kind = arrow_type(element)
    assert kind is not None
    index = ChunkIndex(source, row_group.metadata.column(0), record, row_group.rows)
    reader = PageReader(source, index, row_group.rows, optional=element.repetition is Repetition.OPTIONAL)
    return ColumnGatherer(reader, element, kind)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"_WHOLE_SPAN": 2.0},
        {"_USUAL_BYTES": 1},
        {"_MOST_ROOM_BYTES": 300},
        {"thread_zstd": lambda: NO_ZSTD, "_GROUP_BYTES": 500},
    ],
    ids=["whole chunks", "by page index", "little room for text", "long pages", "no zstd to call"],
)
def test_any_column_is_gathered_as_pyarrow_decodes_it(changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_content, "_thread", threading.local())
    for name, value in {"_WHOLE_SPAN": 0.0, **changed}.items():
        (owner,) = (module for module in (gather, page_content, page_reader) if hasattr(module, name))
        monkeypatch.setattr(owner, name, value)
    monkeypatch.setattr(MemorySource, "local_path", lambda _: "memory")

    @settings(max_examples=3 * settings().max_examples)
    @given(columns(), layouts(), st.data())
    def check(column: tuple[pa.DataType, list[Any], bool], layout: dict[str, Any], data: st.DataObject) -> None:
        kind, values, required = column
        content = written(kind, values, required, **layout)
        rows = sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1)))
        found = gathered(content, rows)
        found.validate(full=True)
        decoded = pq.read_table(pa.BufferReader(content)).column(0)
        assert found.equals(decoded.take(pa.array(rows)).combine_chunks().cast(found.type))

    check()


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
def test_other_encodings_are_left_to_pyarrow(encoding: str) -> None:
    content = written(pa.int64(), [1, 2, 3], False, use_dictionary=False, column_encoding=encoding)
    with pytest.raises(UnsuitableError):
        gathered(content, [1])


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("kind", ["few", "double", "text", "city", "flag", "code", "wide"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_damaged_pages_never_give_rows_that_pyarrow_would_not_give(kind: str, version: str, compression: str) -> None:
    rng = random.Random(f"{kind} {version} {compression}")
    content = written(
        TYPES[kind][0],
        some_values(kind, 500, rng),
        False,
        compression=compression,
        data_page_version=version,
        data_page_size=200,
        write_batch_size=50,
        write_page_index=True,
    )
    rows = sorted(rng.sample(range(500), 60))
    right = gathered(content, rows)
    noticed = 0
    for damaged in damaged_files(content, 150, rng):
        try:
            found = gathered(damaged, rows)
        except (UnsuitableError, PageIndexError):
            noticed += 1
            continue
        if not found.equals(right):
            decoded = pq.read_table(pa.BufferReader(damaged)).column(0)
            assert found.equals(decoded.take(pa.array(rows)).combine_chunks().cast(found.type))
    assert noticed


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_pages_with_another_checksum_than_they_say_are_left_to_pyarrow(version: str, compression: str) -> None:
    values = [None if number % 9 == 0 else number * 2**40 for number in range(500)]
    content = written(
        pa.int64(),
        values,
        False,
        compression=compression,
        data_page_version=version,
        data_page_size=400,
        write_batch_size=50,
        dictionary_pagesize_limit=1000,
        write_page_checksum=True,
    )
    rows = list(range(0, 500, 7))
    right = gathered(content, rows)
    assert right.to_pylist() == [values[row] for row in rows]
    rng = random.Random(version)
    chunk = pq.read_metadata(pa.BufferReader(content)).row_group(0).column(0)
    place = range(chunk.dictionary_page_offset or 0, (chunk.dictionary_page_offset or 0) + chunk.total_compressed_size)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[rng.choice(place)] ^= 1 << rng.randrange(8)
        try:
            found = gathered(bytes(damaged), rows)
        except UnsuitableError:
            continue
        # What was damaged is a header, and neither a number in it that matters nor the fact that there is a checksum.
        assert found.equals(right)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_zstd_pages_need_not_tell_their_length(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = written(pa.int64(), list(range(500)), False, compression="zstd", data_page_version=version)
    monkeypatch.setattr(page_content.PageContents, "_frame", lambda *_: None)
    find = PageReader._find

    def without_frames(*arguments: Any) -> Any:
        found = find(*arguments)
        found.summary[OTHER_CODEC] = 1
        return found

    monkeypatch.setattr(PageReader, "_find", without_frames)
    assert gathered(content, [3, 77, 499]).to_pylist() == [3, 77, 499]


@pytest.mark.parametrize("library", ["of the system", "of zstandard"])
def test_there_is_a_zstd_to_call_and_each_thread_has_its_own(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstd, "_thread", threading.local())
    monkeypatch.setattr(zstd, "_library", zstd._library.__wrapped__)
    if library == "of zstandard":
        monkeypatch.setattr(zstd, "_SYSTEM", "libzstd.so.of.nobody")
    mine = thread_zstd()
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(thread_zstd).result()
    assert mine.function == other.function != 0
    assert 0 != mine.context != other.context != 0
    assert thread_zstd() == mine


@given(st.binary(max_size=3000), st.integers(1, 2000), st.booleans(), st.booleans(), st.integers(-9, 9))
@example(seed=b"a", times=1, checksum=False, tell=True, more=0)
@example(seed=b"", times=1, checksum=False, tell=True, more=0)
def test_only_whole_zstd_frames_tell_their_length(
    seed: bytes, times: int, checksum: bool, tell: bool, more: int
) -> None:
    page = seed * times
    frame = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=tell).compress(page)
    stored = pa.py_buffer(frame[:more] if more < 0 else frame + bytes(more))
    size = kernels(KERNELS).zstd_content_size(stored.address, stored.address + stored.size)
    assert size == (len(page) if tell and not more else -1)


def table_file(**layout: Any) -> bytes:
    columns = {
        "id": pa.array(range(6000)),
        "city": pa.array(["Ulm", "Bonn", None] * 2000),
        "text": pa.array([f"text {number}" for number in range(6000)]),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, data_page_size=2000, write_batch_size=100, **layout)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("layout", "gathered_columns"),
    [
        ({}, 2),
        ({"write_page_index": True}, 3),
        ({"use_dictionary": ["city"], "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}, 1),
        ({"compression": "brotli"}, 0),
    ],
    ids=["plain", "page index", "an encoding that is not known", "a codec that is not known"],
)
def test_a_selective_read_gathers_what_it_can(
    layout: dict[str, Any],
    gathered_columns: int,
) -> None:
    file = open_bytes(table_file(**layout))
    predicate = bind(file.schema, "id in (3, 700, 701, 5999)")
    result = file.read(ReadOptions(projection=file.schema, predicate=predicate))
    rows = [row for batch in result.batches for row in batch.to_pylist()]
    expected = [(3, "Ulm"), (700, "Bonn"), (701, None), (5999, None)]
    assert rows == [{"id": number, "city": city, "text": f"text {number}"} for number, city in expected]
    assert result.counters.get("columns_gathered", 0) == gathered_columns


def test_a_page_that_cannot_be_gathered_is_decoded_by_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: ColumnGatherer, __: Any) -> pa.Array[Any]:
        raise UnsuitableError("as if it were damaged")

    monkeypatch.setattr(ColumnGatherer, "at", refuse)
    file = open_bytes(table_file())
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, "id = 3")))
    assert [batch.to_pylist() for batch in result.batches] == [[{"id": 3, "city": "Ulm", "text": "text 3"}]]
    assert result.counters["columns_gathered_in_vain"] == 2


def test_code_is_compiled_once_it_would_have_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "can_load", lambda _: True)
    payback = Payback("formatkit.formats", 100)
    assert [payback.reached(60), payback.reached(60), payback.reached(0)] == [False, True, True]


def test_indices_without_bits_are_those_of_the_only_value() -> None:
    rows = [{"a": number, "b": None if number % 5 == 0 else "x", "c": 7} for number in range(5000)]
    output = io.BytesIO()
    # So small pages have packed indices, and those of a dictionary with one value take no bytes.
    pl.DataFrame(rows).write_parquet(output, data_page_size=32)
    for where, right in ((None, rows), ("a = 77", rows[77:78]), ("a in (0, 4001)", [rows[0], rows[4001]])):
        found = formatkit.read_file(output.getvalue(), where, file_format="parquet").to_arrow().to_pylist()
        assert found == right
