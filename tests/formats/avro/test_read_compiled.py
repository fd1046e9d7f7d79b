"""When compiled code is used, each in a process of its own."""

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


def test_files_are_read_by_compiled_code_without_numba(small: str) -> None:
    program = "print(*read(sys.argv[1]), 'numba' in sys.modules)"
    assert run(program, small) == "50 compiled False"


def test_small_files_do_without_code_that_would_have_to_be_compiled(small: str) -> None:
    program = "print(*read(sys.argv[1]), 'numba' in sys.modules)"
    assert run(program, small, FORMATKIT_IMAGES="off") == "50 interpreted False"


def test_large_files_are_worth_compiling_and_small_ones_use_it_then(small: str, large: str) -> None:
    program = "print(*read(sys.argv[2]), *read(sys.argv[1]))"
    assert run(program, small, large, FORMATKIT_IMAGES="off") == "90000 compiled 50 compiled"


def test_many_small_files_are_worth_compiling_too(tmp_path: Path) -> None:
    program = "print(*sorted({read(sys.argv[1])[1] for _ in range(80)}))"
    assert run(program, _written(tmp_path, 2000), FORMATKIT_IMAGES="off") == "compiled interpreted"


def test_a_small_file_that_grows_when_decompressed_changes_over(tmp_path: Path) -> None:
    rows = [{"id": number, "name": "same " * 20} for number in range(20_000)]
    path = tmp_path / "grows.avro"
    path.write_bytes(avro_file(SCHEMA, rows, "zstandard", rows_per_block=1000))
    assert path.stat().st_size < 100_000
    assert run("print(*read(sys.argv[1]))", str(path), FORMATKIT_IMAGES="off") == "20000 compiled"
    assert read_rows(path.read_bytes()) == rows
