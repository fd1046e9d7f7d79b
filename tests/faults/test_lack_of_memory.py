"""A process that has not enough memory says so, and of which file."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from formatkit import write_file
from formatkit.batches.arrow.file_reading import decoding
from formatkit.errors import CorruptFileError, OutOfMemoryError, enough_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")

LIMIT = """
import json, re, resource, sys
from pathlib import Path
import pyarrow as pa
import formatkit
from formatkit.errors import OutOfMemoryError

def limit(more):
    size = int(re.search(r"VmSize:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))
"""

READ = f"""{LIMIT}
formatkit.read_file(sys.argv[2], batch_rows=1000).to_arrow()  # everything is imported, threads run
limit(150 << 20)
try:
    formatkit.read_file(sys.argv[1], batch_rows=10_000_000).to_arrow()
except OutOfMemoryError as error:
    print(json.dumps([str(error), error.location]))
"""


def run(program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        # The others have taken more address space than they use.
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[str] = json.loads(done.stdout)
    return found


def file_of(path: Path, rows: int) -> str:
    schema = Schema(NestedField(1, "text", StringType()))
    write_file(str(path), pa.table({"text": pa.repeat(pa.scalar("x" * 1000), rows)}), schema=schema)
    return str(path)


@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "arrow"])
def test_reading_without_enough_memory_is_an_error_of_its_own(name: str, tmp_path: Path) -> None:
    location = file_of(tmp_path / f"large.{name}", 400_000)
    message, named = run(READ, location, file_of(tmp_path / f"small.{name}", 5000))
    assert named == location
    assert "there is not enough memory" in message
    assert "batch_rows" in message
    assert "spark.executor.pyspark.memory" in message


THREADS = f"""{LIMIT}
import threading
threading.stack_size(1 << 29)
limit(100 << 20)
try:
    formatkit.write_file(sys.argv[1], pa.table({{"id": [1]}}))
except OutOfMemoryError as error:
    print(json.dumps([str(error)]))
"""


def test_a_thread_that_cannot_be_started_is_a_lack_of_memory(tmp_path: Path) -> None:
    (message,) = run(THREADS, str(tmp_path / "t.parquet"))
    assert "not enough memory to start a thread" in message
    assert "spark.executor.pyspark.memory" in message


def test_the_error_is_a_memory_error_that_says_how_much_was_asked_for() -> None:
    with pytest.raises(OutOfMemoryError, match="for 4611686018427387904 more bytes") as caught, enough_memory("a.orc"):
        pa.allocate_buffer(1 << 62)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.asked_bytes == 1 << 62
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.location) == (str(caught.value), "a.orc")


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
        RuntimeError("can't start new thread"),
    ],
)
def test_a_thread_that_cannot_start_is_no_damage_of_the_file(error: Exception) -> None:
    with pytest.raises(OutOfMemoryError, match=r"not enough memory to start a thread.*ulimit -u"), decoding("a", "ORC"):
        raise error


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(CorruptFileError), enough_memory("a.orc"):
        raise CorruptFileError("std::bad_alloc in a.orc")
