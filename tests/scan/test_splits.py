"""Cutting files into tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import formatkit
from formatkit.contract import Split
from formatkit.scan.splits import split_tasks
from formatkit.scan.tasks import FileTask

MEGABYTE = 1 << 20


def task(size: int | None, *offsets: int, file_format: str = "parquet") -> FileTask:
    return FileTask(location="f", file_format=file_format, size_bytes=size, split_offsets=offsets)


def splits(whole: FileTask, threads: int = 2) -> list[Split | None]:
    return [part.split for part in split_tasks([whole], {"parquet"}, threads)]


def test_a_file_is_cut_at_its_offsets_into_parts_that_tile_it() -> None:
    parts = split_tasks([task(40 * MEGABYTE, 4, 10 * MEGABYTE, 20 * MEGABYTE, 30 * MEGABYTE)], {"parquet"}, 2)
    assert [part.split for part in parts] == [Split(n * 10 * MEGABYTE, 10 * MEGABYTE) for n in range(4)]
    assert parts[0].split_offsets == (4,)
    assert parts[1].split_offsets == (10 * MEGABYTE,)
    assert sum(part.bytes_to_read for part in parts) == 40 * MEGABYTE


def test_small_chunks_stay_together() -> None:
    found = splits(task(8 * MEGABYTE, *range(4, 8 * MEGABYTE, MEGABYTE // 4)))
    assert 4 <= len(found) <= 8


@pytest.mark.parametrize(
    "whole",
    [
        task(1000, 4, 500),
        task(40 * MEGABYTE),
        task(40 * MEGABYTE, 4),
        task(None, 4, 10 * MEGABYTE),
        task(40 * MEGABYTE, 4, 50 * MEGABYTE),
        task(40 * MEGABYTE, 20 * MEGABYTE, 4),
        task(40 * MEGABYTE, 4, 20 * MEGABYTE, file_format="avro"),
    ],
    ids=["tiny", "no offsets", "one chunk", "unknown size", "outside", "descending", "cannot be split"],
)
def test_a_file_that_cannot_be_cut_stays_whole(whole: FileTask) -> None:
    assert splits(whole) == [None]


def test_one_thread_needs_no_parts() -> None:
    assert splits(task(40 * MEGABYTE, 4, 20 * MEGABYTE), threads=1) == [None]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("batch_rows", [999, 65_536])
@pytest.mark.parametrize("where", [None, "n < 60000 and n != 77"])
def test_every_row_comes_once_and_in_order(tmp_path: Path, threads: int, batch_rows: int, where: str | None) -> None:
    path = tmp_path / "big.parquet"
    numbers = range(200_000)
    blob = [bytes([n % 256]) * 8 + n.to_bytes(8, "little") for n in numbers]
    pq.write_table(
        pa.table({"n": numbers, "blob": blob}), path, row_group_size=20_000, compression="none", use_dictionary=False
    )
    scan = formatkit.read_file(path, where, select=("n", "_pos"), threads=threads, batch_rows=batch_rows)
    expected = [n for n in numbers if where is None or (n < 60_000 and n != 77)]
    found = scan.to_arrow().to_pydict()
    assert found == {"n": expected, "_pos": expected}
    assert len(scan.tasks) == (1 if threads == 1 else 5)
    assert scan.count() == len(expected)
