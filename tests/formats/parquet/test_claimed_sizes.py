"""Pages and footers that claim gigabytes are refused by what their bytes can hold, before memory is asked for."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import formatkit
from formatkit.errors import CorruptFileError
from support.mutations.parquet import claiming, pages
from support.mutations.parquet_file import ParquetFile

MAX = 2**31 - 1
CODECS = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")


def written(codec: Any, version: Any, rows: int, *, use_dictionary: bool) -> bytes:
    sink = pa.BufferOutputStream()
    numbers = [number % 97 for number in range(rows)]
    table = pa.table({"number": numbers, "text": [f"text {number}" for number in numbers]})
    pq.write_table(
        table,
        sink,
        compression=codec,
        data_page_version=version,
        use_dictionary=use_dictionary,
        # Leaves room in headers.
        write_page_checksum=True,
    )
    return sink.getvalue().to_pybytes()


def claims(codec: str) -> Iterator[tuple[str, bytes]]:
    """Files of which one page claims to be as long, or to have as many values, as 32 bits can tell."""
    for version, rows, use_dictionary in (("1.0", 500, True), ("1.0", 5000, False), ("2.0", 5000, True)):
        good = written(codec, version, rows, use_dictionary=use_dictionary)
        for page in pages(good):
            struct = {0: 5, 2: 7, 3: 8}[page.header[1]]
            what = f"{codec} v{version} {rows} rows, {page.column} at {page.start}"
            yield f"{what}: values", claiming(good, page, {(struct, 1): MAX})
            yield f"{what}: length", claiming(good, page, {(2,): MAX})
            if struct == 5:
                yield f"{what}: both", claiming(good, page, {(2,): MAX, (struct, 1): MAX // 8})


def outcome(codec: str) -> tuple[list[str], int]:
    """Claims that were not refused, and how many bytes Arrow had at most."""
    accepted = []
    for what, data in claims(codec):
        try:
            formatkit.read_file(data).to_arrow()
        except CorruptFileError:
            continue
        accepted.append(what)
    return accepted, pa.default_memory_pool().max_memory() or 0


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=2 * len(CODECS)) as pool:
        yield pool


@pytest.mark.parametrize("codec", CODECS)
def test_a_page_that_claims_gigabytes_is_refused_before_memory_is_asked_for(
    codec: str, processes: ProcessPoolExecutor
) -> None:
    accepted, most = processes.submit(outcome, codec).result(120)
    assert accepted == []
    assert most < 64 << 20


def claim_of_all(codec: str) -> tuple[str, int]:
    """What a file raises whose page, column chunk and footer claim half a gigabyte, and the bytes it took."""
    claim = 1 << 29
    file = ParquetFile(written(codec, "1.0", 500, use_dictionary=True))
    chunk, group = file.chunks[0], file.footer["row_groups"][0]
    page, column = chunk.pages[1].header, chunk.record["meta_data"]
    for node, name in ((page, "uncompressed_page_size"), (column, "total_uncompressed_size")):
        node[name].value, node[name].edited = claim, True
    values = page["data_page_header"]["num_values"], column["num_values"]
    for count in (*values, group["num_rows"], file.footer["num_rows"]):
        count.value, count.edited = claim // 8, True
    formatkit.read_file(written(codec, "1.0", 500, use_dictionary=True)).to_arrow()  # everything is imported
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        formatkit.read_file(file.to_bytes(), select=["number"]).to_arrow()
    except CorruptFileError as error:
        return str(error), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return "nothing", 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_whose_footer_claims_gigabytes_too_is_refused(codec: str, processes: ProcessPoolExecutor) -> None:
    error, kilobytes = processes.submit(claim_of_all, codec).result(120)
    assert "is a corrupt Parquet file" in error
    assert kilobytes < 100 << 10


def test_a_footer_that_claims_millions_of_columns_is_refused() -> None:
    good = written("none", "1.0", 10, use_dictionary=False)
    start = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    # The list of schema elements is the second field: its head, which has three elements, becomes a long one.
    place = good.index(b"\x19\x3c", start)
    with pytest.raises(CorruptFileError, match="cannot be stored"):
        formatkit.read_file(good[:place] + b"\x19\xfc\xff\xff\xff\x7f" + good[place + 6 :]).to_arrow()
