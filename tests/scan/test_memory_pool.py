"""Where the memory of a scan comes from."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import formatkit
from formatkit.errors import ConfigurationError

ROWS = 50_000


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"number": pa.array(range(ROWS))}), path)
    return str(path)


def test_a_table_that_is_kept_comes_from_the_pool_of_the_system(file: str) -> None:
    before = pa.system_memory_pool().bytes_allocated()
    table = formatkit.read_file(file).to_arrow()
    assert pa.system_memory_pool().bytes_allocated() - before >= table.nbytes


@pytest.mark.parametrize("pool", pa.supported_memory_backends())
def test_a_property_names_another_pool(file: str, pool: str) -> None:
    chosen = getattr(pa, f"{pool}_memory_pool")()
    before = chosen.bytes_allocated()
    table = formatkit.read_file(file, properties={"read.arrow.memory-pool": pool}).to_arrow()
    assert chosen.bytes_allocated() - before >= table.nbytes


def test_batches_come_from_the_default_pool(file: str) -> None:
    before = pa.default_memory_pool().bytes_allocated()
    with formatkit.read_file(file).to_batches() as batches:
        kept = list(batches)
        assert pa.default_memory_pool().bytes_allocated() - before >= sum(batch.nbytes for batch in kept)


def test_an_unknown_pool_is_refused(file: str) -> None:
    with pytest.raises(ConfigurationError, match=r"read\.arrow\.memory-pool is 'borrowed'; this pyarrow knows default"):
        formatkit.read_file(file, properties={"read.arrow.memory-pool": "borrowed"}).to_arrow()


_FILL_AND_FREE = """
import resource, threading
import numpy as np
import pyarrow as pa
from formatkit.batches.arrow.pools import MEMORY_POOL, memory_pool

def fill(pool):
    for buffer in [pa.allocate_buffer(1 << 20, pool) for _ in range(40)]:
        np.frombuffer(buffer, np.uint8)[::4096] = 1

def faults():
    pool, before = memory_pool({MEMORY_POOL: "system"}), []
    for _ in range(3):
        before.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt)
        fill(pool)
    print(before[1] - before[0], before[2] - before[1])

thread = threading.Thread(target=faults)
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators learn otherwise")
def test_the_pool_of_the_system_keeps_what_is_freed() -> None:
    run = subprocess.run([sys.executable, "-c", _FILL_AND_FREE], check=True, stdout=subprocess.PIPE, text=True)
    first, second = map(int, run.stdout.split())
    assert second < first // 2
