"""Which bytes of a file belong to a column, as Lance itself tells it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField

from formatkit.contract.storage import ByteRange
from formatkit.formats.lance.column_buffers import UnknownDescriptionError, column_buffers
from formatkit.formats.lance.local_file import LocalFile
from formatkit.formats.lance.plugin import LanceFormat
from formatkit.io import LocalSource
from support.every_type import EDGES, EVERY_TYPE
from support.plugin_files import write_rows, write_table

PLUGIN = LanceFormat()
TWO_COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "x", DoubleType()))


def told_by_lance(column: Any) -> set[ByteRange]:
    owners = (column.column_buffers, *(page.buffers for page in column.pages))
    return {ByteRange(buffer.position, buffer.size) for owner in owners for buffer in owner}


@cache
def stored_files() -> dict[str, bytes]:
    many = np.random.default_rng(1).random(2_000_000)
    table = pa.table({"id": np.arange(len(many)), "x": many})
    return {
        "every type": write_rows(PLUGIN, EVERY_TYPE, EDGES * 50),
        "one row": write_rows(PLUGIN, EVERY_TYPE, EDGES[:1]),
        "many pages": write_table(PLUGIN, TWO_COLUMNS, table),
    }


@pytest.fixture(scope="module", params=["every type", "one row", "many pages"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lance") / "a.lance"
    path.write_bytes(stored_files()[request.param])
    return path


def test_a_column_has_the_buffers_that_lance_tells(path: Path) -> None:
    columns = LanceFileReader(str(path)).metadata().columns
    file = LocalFile(LocalSource(path))
    for number, column in enumerate(columns):
        assert set(file.buffers([number], len(columns))) == told_by_lance(column)
    several = [0, len(columns) - 1]
    assert set(file.buffers(several[:1], len(columns) + 1)) == {ByteRange(0, file.size)}
    if len(columns) > len(several):
        found = set(file.buffers(several, len(columns)))
        assert found == told_by_lance(columns[0]) | told_by_lance(columns[-1])


def test_all_columns_are_all_of_the_file(path: Path) -> None:
    count = len(LanceFileReader(str(path)).metadata().columns)
    file = LocalFile(LocalSource(path))
    assert file.buffers(range(count), count) == [ByteRange(0, file.size)]


@pytest.mark.parametrize(
    "description",
    [
        b"\x2a\x00",
        b"\x18\x07",
        b"\x1a\x01\x07",
        b"\x12\x02\x30\x01",
        b"\x12\x05\x0a",
        b"\x19\x07",
        b"\x1a",
        b"\x80",
    ],
    ids=[
        "an unknown field",
        "an offset that is not packed",
        "an offset without a length",
        "an unknown field of a page",
        "a page that is cut off",
        "a field of another kind",
        "a length that is missing",
        "a number that is cut off",
    ],
)
def test_what_is_not_known_is_said_to_be_so(description: bytes) -> None:
    with pytest.raises(UnknownDescriptionError):
        list(column_buffers(memoryview(description)))
