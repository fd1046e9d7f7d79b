"""Text that its writer stored as plain binary, as old writers do, behind a string column."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import formatkit

TEXTS = ["ab", "bé", None, "zz", ""]
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))


@pytest.fixture
def location(tmp_path: Path) -> str:
    stored = [None if text is None else text.encode() for text in TEXTS]
    path = tmp_path / "old.parquet"
    table = pa.table({"id": pa.array(range(len(TEXTS))), "s": pa.array(stored, pa.binary())})
    pq.write_table(table, path, row_group_size=2)
    return str(path)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (None, [0, 1, 2, 3, 4]),
        ("s = 'bé'", [1]),
        ("s > 'b'", [1, 3]),
        ("s != 'ab'", [1, 2, 3, 4]),
        ("s in ('ab', 'q')", [0]),
        ("s like 'b%'", [1]),
        ("s not like 'b%'", [0, 2, 3, 4]),
        ("s is null", [2]),
    ],
)
@pytest.mark.parametrize("dictionary", [(), "s"])
def test_it_is_read_and_filtered_as_text(
    location: str, where: str | None, rows: list[int], dictionary: str | tuple[()]
) -> None:
    found = formatkit.read_file(location, schema=SCHEMA, where=where, dictionary_columns=dictionary).to_arrow()
    assert found.column("id").to_pylist() == rows
    assert found.column("s").to_pylist() == [TEXTS[row] for row in rows]
