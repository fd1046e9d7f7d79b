"""Validation of damaged files ends with a report, whatever was changed in their structures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import formatkit
from support.mutations.arrow_file import edit_arrow
from support.mutations.avro_file import AvroFile
from support.mutations.orc_file import OrcFile
from support.mutations.parquet_file import ParquetFile

ROWS = pa.table(
    {
        "id": pa.array([None if i % 5 == 0 else i for i in range(200)], pa.int64()),
        "s": [f"{i:04}" for i in range(200)],
        "l": [[i, None] for i in range(200)],
    }
)


def damaged(file_format: str, data: bytes, random: Random) -> bytes:
    if file_format == "arrow":
        return edit_arrow(data, random)[2]
    parsers: dict[str, Callable[[bytes], ParquetFile | OrcFile | AvroFile]]
    parsers = {"parquet": ParquetFile, "orc": OrcFile, "avro": AvroFile.parse}
    file = parsers[file_format](data)
    file.edit(random)
    return file.to_bytes()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "arrow"])
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_is_reported_on(tmp_path_factory: pytest.TempPathFactory, file_format: str, seed: int) -> None:
    path: Path = tmp_path_factory.mktemp("damaged") / f"a.{file_format}"
    formatkit.write_file(path, ROWS)
    path.write_bytes(damaged(file_format, path.read_bytes(), Random(seed)))
    report = formatkit.validate(path, file_format=file_format)
    assert "reader-failed" not in {finding.code for finding in report.findings}
