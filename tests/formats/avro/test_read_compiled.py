"""When compiled code is loaded and where it is kept, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.avro_reading import avro_file, field, read_rows, record

SCHEMA = record(field("id", "long"), field("name", "string"))
READ = """
import sys
from formatkit.contract import OpenOptions, ReadOptions
from formatkit.formats.avro.plugin import AvroFormat
from formatkit.io import open_source

def read(path):
    source = open_source(path)
    file = AvroFormat().reader().open(source, OpenOptions())
    result = file.read(ReadOptions(projection=file.schema))
    rows = sum(batch.num_rows for batch in result.batches)
    source.close()
    return rows, result.counters["decoder"]
"""


def run(program: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READ + program, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _written(tmp_path_factory.mktemp("small"), 50)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _written(tmp_path_factory.mktemp("large"), 90_000)


def _written(folder: Path, rows: int) -> str:
    path = folder / "file.avro"
    path.write_bytes(avro_file(SCHEMA, ({"id": n, "name": f"name {n}"} for n in range(rows)), rows_per_block=1000))
    return str(path)


def test_small_files_do_without_numba(small: str) -> None:
    program = "print(*read(sys.argv[1]), 'numba' in sys.modules)"
    assert run(program, small) == "50 interpreted False"


def test_large_files_are_worth_compiled_code_and_small_ones_use_it_then(small: str, large: str) -> None:
    program = "print(*read(sys.argv[2]), *read(sys.argv[1]))"
    assert run(program, small, large) == "90000 compiled 50 compiled"


def test_threads_that_load_compiled_code_at_once_and_forks_meanwhile_all_finish(large: str) -> None:
    program = """
import os, threading
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    reads = [pool.submit(read, sys.argv[1]) for _ in range(8)]
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            os._exit(0 if read(sys.argv[1])[0] == 90000 else 1)
        children.append(child)
    assert {each.result() for each in reads} == {(90000, "compiled")}
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
    assert run(program, large) == "[0, 0, 0]"


def test_compiled_code_is_kept_where_the_user_says(large: str, tmp_path: Path) -> None:
    run("read(sys.argv[1])", large, NUMBA_CACHE_DIR=str(tmp_path))
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert len(kept) == 1
    run("read(sys.argv[1])", large, NUMBA_CACHE_DIR=str(tmp_path))
    assert kept == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}


def test_a_cache_that_cannot_be_written_does_not_matter(large: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"not a folder")
    assert run("print(*read(sys.argv[1]))", large, NUMBA_CACHE_DIR=str(tmp_path / "file")) == "90000 compiled"


def test_many_small_files_are_worth_compiled_code_too(tmp_path: Path) -> None:
    program = "print(*sorted({read(sys.argv[1])[1] for _ in range(80)}))"
    assert run(program, _written(tmp_path, 2000)) == "compiled interpreted"


def test_a_small_file_that_grows_when_decompressed_changes_over(tmp_path: Path) -> None:
    rows = [{"id": number, "name": "same " * 20} for number in range(20_000)]
    path = tmp_path / "grows.avro"
    path.write_bytes(avro_file(SCHEMA, rows, "zstandard", rows_per_block=1000))
    assert path.stat().st_size < 100_000
    assert run("print(*read(sys.argv[1]))", str(path)) == "20000 compiled"
    assert read_rows(path.read_bytes()) == rows
