"""Flat columns that compiled code decodes, compared with what pyarrow decodes, which does not share any of it."""

from __future__ import annotations

import io
import random
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formatkit.batches.compiled.loading import Payback
from formatkit.batches.compiled.zstd import NO_ZSTD
from formatkit.contract import ReadOptions
from formatkit.errors import CorruptFileError, InvalidDataError
from formatkit.formats.parquet import column_decoder, flat_reader, page_content, page_reader
from formatkit.formats.parquet.column_decoder import ColumnDecoder
from formatkit.formats.parquet.elements import Repetition
from formatkit.formats.parquet.footer import read_footer
from formatkit.formats.parquet.gathered_types import arrow_type
from formatkit.formats.parquet.page_content import UnsuitableError
from formatkit.formats.parquet.page_reader import PageReader
from formatkit.formats.parquet.pruning.page_index import ChunkIndex
from formatkit.io import MemorySource
from formatkit.kernel import bind
from support.flat_columns import TYPES, columns, damaged_files, layouts, some_values, written
from support.parquet_reading import open_bytes


def decoded(
    content: bytes,
    step: int,
    window: int = 1 << 20,
    value_bytes: float = 8,
    rows: int | None = None,
    pool: pa.MemoryPool | None = None,
) -> pa.ChunkedArray[Any]:
    """The only column of the only row group, in steps of so many rows. Raises `UnsuitableError`."""
    source = MemorySource(content)
    footer = read_footer(source, None)
    footer.require_sound_chunks()
    (row_group,) = footer.row_groups
    element, record = footer.columns.columns[0].element, footer.chunk_record(row_group, 0)
    assert element is not None
    assert record is not None
    kind, count = arrow_type(element), row_group.rows if rows is None else rows
    assert kind is not None
    index = ChunkIndex(source, row_group.metadata.column(0), record, count)
    reader = PageReader(source, index, count, optional=element.repetition is Repetition.OPTIONAL)
    decoder = ColumnDecoder(reader, element, kind, count, value_bytes, window, pool)
    return pa.chunked_array([decoder.next(min(step, count - start)) for start in range(0, count, step)])


def by_pyarrow(content: bytes, kind: pa.DataType) -> pa.ChunkedArray[Any]:
    return pq.read_table(pa.BufferReader(content)).column(0).cast(kind)


@pytest.mark.parametrize(
    "changed",
    [{}, {"_MOST_ROOM_BYTES": 300}, {"thread_zstd": lambda: NO_ZSTD, "_GROUP_BYTES": 500}],
    ids=["usual pages", "long pages", "no zstd to call"],
)
def test_any_column_is_decoded_as_pyarrow_decodes_it(changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_content, "_thread", threading.local())
    for name, value in changed.items():
        (owner,) = (module for module in (page_content, page_reader) if hasattr(module, name))
        monkeypatch.setattr(owner, name, value)

    @settings(max_examples=5 * settings().max_examples)
    @given(
        columns(),
        layouts(),
        st.sampled_from([1, 7, 64, 1000]),
        st.sampled_from([1, 90, 1 << 20]),
        st.sampled_from([0, 8, 10_000]),
    )
    def check(
        column: tuple[pa.DataType, list[Any], bool], layout: dict[str, Any], step: int, window: int, value_bytes: int
    ) -> None:
        kind, values, required = column
        content = written(kind, values, required, **layout)
        found = decoded(content, step, window, value_bytes)
        found.validate(full=True)
        assert found.equals(by_pyarrow(content, found.type))
        assert found.null_count == sum(value is None for value in values)

    check()


@pytest.mark.parametrize("kind", ["few", "city", "flag", "wide", "bytes"])
def test_values_across_many_words_are_decoded(kind: str) -> None:
    rng = random.Random(kind)
    values = some_values(kind, 40_000, rng)
    for nulls in (values, [value for value in values if value is not None]):
        content = written(TYPES[kind][0], nulls, False, data_page_size=4096, compression="zstd")
        found = decoded(content, 9973)
        found.validate(full=True)
        assert found.equals(by_pyarrow(content, found.type))


@pytest.mark.parametrize("bits", range(17))
def test_indices_of_every_width_are_decoded(bits: int) -> None:
    distinct = 2**bits
    values = np.random.default_rng(bits).integers(0, distinct, max(20_000, 2 * distinct))
    values[:distinct] = np.arange(distinct)
    content = written(pa.int64(), values.tolist(), False, dictionary_pagesize_limit=1 << 22, data_page_size=1 << 14)
    found = decoded(content, 4096)
    assert found.equals(by_pyarrow(content, found.type))


def test_arrays_own_no_more_text_than_they_need() -> None:
    values = ["x" * 1000] * 5000 + ["y"] * 20_000
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    found = decoded(written(pa.string(), values, False), 5000, pool=pool)
    assert found.to_pylist() == values
    assert pool.bytes_allocated() < 1.25 * found.nbytes
    # Arrays must not outlive their pool.
    del found


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("kind", ["few", "double", "text", "city", "flag", "code", "wide", "narrow"])
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
        store_decimal_as_integer=kind == "narrow",
    )
    right = decoded(content, 200)
    noticed = 0
    for damaged in damaged_files(content, 150, rng):
        try:
            found = decoded(damaged, rng.choice([60, 500]), rng.choice([50, 1 << 20]))
        except (UnsuitableError, InvalidDataError):
            noticed += 1
            continue
        found.validate()
        if not found.equals(right):
            assert found.equals(by_pyarrow(damaged, found.type))
    assert noticed


@pytest.mark.parametrize("rows", [350, 400, 450, 499, 501, 600])
@pytest.mark.parametrize("step", [100, 50])
def test_pages_with_more_or_fewer_rows_than_the_row_group_are_left_to_pyarrow(rows: int, step: int) -> None:
    content = written(pa.int64(), list(range(500)), False, data_page_size=400, write_batch_size=50)
    assert len(decoded(content, step)) == 500
    with pytest.raises(UnsuitableError):
        decoded(content, step, rows=rows)


def test_text_that_is_too_long_for_one_array_is_left_to_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    content = written(pa.string(), ["x" * 1000] * 5000, False)
    monkeypatch.setattr(column_decoder, "_MOST_DATA_BYTES", 1_000_000)
    with pytest.raises(UnsuitableError):
        decoded(content, 5000)
    assert len(decoded(content, 500)) == 5000


def table_file(rows: int = 20_000, **layout: Any) -> bytes:
    columns = {
        "id": pa.array(range(rows)),
        "city": pa.array((["Ulm", "Bonn", None] * rows)[:rows]),
        "parts": pa.array([[number] * (number % 3) for number in range(rows)]),
        "text": pa.array([f"text {number}" for number in range(rows)]),
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, **layout)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("row_group_size", [20_000, 9_000, 4_096, 1_000])
@pytest.mark.parametrize("batch_rows", [100_000, 8_192, 1_000])
@pytest.mark.parametrize("threads", [1, 2, 9])
def test_a_file_is_read_as_pyarrow_reads_it_whoever_decodes_which_column(
    row_group_size: int, batch_rows: int, threads: int
) -> None:
    content = table_file(row_group_size=row_group_size)
    file = open_bytes(content)
    options = ReadOptions(projection=file.schema, batch_rows=batch_rows, threads=threads)
    batches = list(file.read(options).batches)
    assert max(batch.num_rows for batch in batches) <= batch_rows
    found = pa.Table.from_batches(batches)
    assert found.to_pylist() == pq.read_table(pa.BufferReader(content)).to_pylist()


@pytest.mark.parametrize("name", ["begin", "end"])
def test_a_column_that_cannot_be_decoded_is_left_to_pyarrow_from_there_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = table_file()
    method = getattr(ColumnDecoder, name)
    calls: list[None] = []

    def refuse(*arguments: Any) -> Any:
        calls.append(None)
        if len(calls) == 4:
            raise UnsuitableError("as if it were damaged")
        return method(*arguments)

    monkeypatch.setattr(ColumnDecoder, name, refuse)
    file = open_bytes(content)
    result = file.read(ReadOptions(projection=file.schema, batch_rows=3_000))
    found = pa.Table.from_batches(list(result.batches))
    assert found.to_pylist() == pq.read_table(pa.BufferReader(content)).to_pylist()
    # The first column of the second batch was refused, and asked for no more.
    assert result.counters["columns_left_to_pyarrow"] == 1
    assert len(calls) == 3 * 7 - 5


def test_text_that_does_not_fit_into_an_array_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_decoder, "_MOST_DATA_BYTES", 100_000)
    monkeypatch.setattr(flat_reader, "_MOST_BYTES", 100_000)
    texts = [None if number % 7 == 0 else "x" * (number % 50) for number in range(20_000)]
    content = io.BytesIO()
    pq.write_table(pa.table({"id": range(20_000), "text": texts}), content)
    file = open_bytes(content.getvalue())
    batches = list(file.read(ReadOptions(projection=file.schema, batch_rows=20_000)).batches)
    assert len(batches) > 1
    assert pa.Table.from_batches(batches).to_pydict() == {"id": list(range(20_000)), "text": texts}


def test_damage_is_told_by_pyarrow() -> None:
    content = bytearray(table_file(compression="zstd"))
    chunk = pq.read_metadata(pa.BufferReader(bytes(content))).row_group(0).column(0)
    for place in range(chunk.data_page_offset + 60, chunk.data_page_offset + 2000):
        content[place] = 0
    file = open_bytes(bytes(content))
    with pytest.raises(CorruptFileError):
        list(file.read(ReadOptions(projection=file.schema)).batches)


def test_columns_are_decoded_on_as_many_threads_as_the_reader_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()
    use = ColumnDecoder.use_tools_of_thread

    def watch(self: ColumnDecoder) -> None:
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            # Each has begun before one may do the work of another.
            begun.wait(60)
        use(self)

    monkeypatch.setattr(ColumnDecoder, "use_tools_of_thread", watch)
    for threads in (1, 3):
        seen.clear()
        begun = threading.Barrier(threads)
        file = open_bytes(table_file())
        assert len(list(file.read(ReadOptions(projection=file.schema, threads=threads)).batches)) == 1
        assert len(seen) == threads
        assert threading.get_ident() in seen


@pytest.mark.parametrize("layout", [{"column_encoding": {"id": "DELTA_BINARY_PACKED"}, "use_dictionary": ["city"]}, {}])
def test_columns_that_are_filtered_are_decoded_alike(layout: dict[str, Any]) -> None:
    content = table_file(**layout)
    file = open_bytes(content)
    predicate = bind(file.schema, "id >= 100 and city = 'Ulm'")
    rows = [
        row
        for batch in file.read(ReadOptions(projection=file.schema, predicate=predicate)).batches
        for row in batch.to_pylist()
    ]
    every = pq.read_table(pa.BufferReader(content)).to_pylist()
    assert rows == [row for row in every if row["id"] >= 100 and row["city"] == "Ulm"]


def test_without_compiled_code_pyarrow_decodes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_reader, "PAYBACK", Payback("formatkit.formats", 1 << 40))
    monkeypatch.setattr(flat_reader, "ColumnDecoder", None)
    content = table_file()
    file = open_bytes(content)
    found = pa.Table.from_batches(list(file.read(ReadOptions(projection=file.schema)).batches))
    assert found.to_pylist() == pq.read_table(pa.BufferReader(content)).to_pylist()
