"""Importing formatkit, or asking the command line for help, does not load the libraries that do the work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

HEAVY = {"duckdb", "numpy", "polars", "pyarrow", "pydantic", "pyiceberg", "rich", "sqlalchemy", "typer"}


def modules_after(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}}, file=sys.stderr)"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(outcome.stderr.split())


def test_importing_formatkit_loads_nothing_heavy() -> None:
    assert modules_after("import formatkit") & HEAVY == set()


def test_listing_the_installed_formats_loads_no_plugin() -> None:
    loaded = modules_after("from formatkit.registry import default_registry; default_registry().names()")
    assert loaded & {"numpy", "pyarrow"} == set()


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_help_and_version_load_no_data_library(argument: str) -> None:
    loaded = modules_after(f"from formatkit.cli.app import run; run([{argument!r}])")
    assert loaded & {"numpy", "pyarrow", "pyiceberg"} == set()


def test_reading_a_file_loads_only_what_its_format_and_batch_type_need(tmp_path: Path) -> None:
    path = tmp_path / "few.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), path)
    loaded = modules_after(f"import formatkit; formatkit.read_file({str(path)!r}).to_arrow()")
    assert loaded & {"lance", "numba", "polars", "vortex"} == set()


def test_reading_a_small_avro_file_loads_neither_tables_nor_parsers(tmp_path: Path) -> None:
    path = tmp_path / "few.avro"
    schema = {"type": "record", "name": "row", "fields": [{"name": "a", "type": "long"}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"a": 1}])
    loaded = modules_after(f"import formatkit; formatkit.read_file({str(path)!r}).to_arrow()")
    # Tables of pyiceberg need the last one, filters that are text the one before.
    assert loaded & {"numba", "pyparsing", "strictyaml"} == set()
