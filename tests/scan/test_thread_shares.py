"""How many files a scan reads at once, and on how many threads each."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from formatkit.formats.avro.plugin import AvroFormat
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.scan.options import Tuning
from formatkit.scan.runner import run_in_order
from formatkit.scan.tasks import FileTask
from formatkit.scan.thread_shares import share_threads

MB = 1 << 20


def shares(sizes: list[int], threads: int, buffer_bytes: int, file_format: str = "parquet") -> tuple[int, int]:
    plugins: dict[str, Any] = {"parquet": ParquetFormat(), "avro": AvroFormat()}
    tasks = [FileTask(location="", file_format=file_format, size_bytes=size) for size in sizes]
    return share_threads(plugins, tasks, Tuning(threads=threads, buffer_bytes=buffer_bytes))


@pytest.mark.parametrize(
    ("sizes", "threads", "buffer_bytes", "expected"),
    [
        ([50 * MB] * 4, 1, 8 * MB, (1, 1)),
        ([50 * MB] * 4, 4, 8 * MB, (1, 4)),
        ([1000] * 9, 4, 8 * MB, (4, 1)),
        ([50 * MB], 4, 8 * MB, (1, 4)),
        ([50 * MB] * 2, 4, sys.maxsize, (2, 2)),
        ([50 * MB] * 9, 4, sys.maxsize, (4, 1)),
        ([], 4, 8 * MB, (4, 1)),
    ],
    ids=["one thread", "large files", "small files", "one file", "few files at once", "many at once", "none"],
)
def test_threads_read_files_side_by_side_or_columns_of_one(
    sizes: list[int], threads: int, buffer_bytes: int, expected: tuple[int, int]
) -> None:
    assert shares(sizes, threads, buffer_bytes) == expected


def test_files_are_read_side_by_side_where_readers_use_one_thread() -> None:
    assert shares([50 * MB] * 4, 4, 8 * MB, "avro") == (4, 1)


def test_one_task_at_a_time_can_run_beside_its_consumer() -> None:
    threads: set[int] = set()

    def read(task: int) -> Any:
        threads.add(threading.get_ident())
        yield task

    found = run_in_order([1, 2, 3], read, threads=1, buffer_bytes=MB, beside=True)
    assert list(found) == [1, 2, 3]
    assert threading.get_ident() not in threads
    assert len(threads) == 1
