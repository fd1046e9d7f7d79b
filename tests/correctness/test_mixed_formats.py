"""One table whose files are of every format, written at every age of its schema, scanned as one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import formatkit
from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.registry import default_registry
from formatkit.tck import naive
from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.tables import make_table, write_with

FORMATS = ("arrow", "avro", "lance", "orc", "parquet", "vortex")


def line(name: str, number: type, **kinds: Any) -> ListType:
    struct = StructType(NestedField(11, name, number()), *(NestedField(12, key, kind) for key, kind in kinds.items()))
    return ListType(10, struct, element_required=False)


FIRST = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "score", FloatType()),
    NestedField(4, "lines", line("count", IntegerType)),
    schema_id=0,
)
# Promoted, renamed, moved, dropped and added again under an old name, with a default, and inside the list too.
SECOND = Schema(
    NestedField(3, "score", DoubleType()),
    NestedField(1, "id", LongType(), required=True),
    NestedField(5, "name", StringType(), initial_default="nobody"),
    NestedField(2, "title", StringType()),
    NestedField(4, "lines", line("pieces", LongType, unit=StringType())),
    schema_id=1,
)
OLD_ROWS: list[naive.Row] = [
    {1: 1, 2: "ada", 3: 0.10000000149011612, 4: [{11: 5}, None]},
    {1: 2, 2: None, 3: math.nan, 4: []},
    {1: -(2**31), 2: "", 3: None, 4: None},
]
NEW_ROWS: list[naive.Row] = [
    {3: 1e300, 1: 2**40, 5: "somebody", 2: "dr", 4: [{11: 2**40, 12: "kg"}]},
    {3: -0.0, 1: 3, 5: None, 2: None, 4: None},
]
QUESTIONS = [
    "id > 2",
    "id = 1099511627776",
    "score > 0.1",
    "score is not nan and name != 'somebody'",
    "name = 'nobody' and title is null",
    "title not in ('ada') or id in (1, 3)",
    "_pos = 1",
]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[StaticTable, list[naive.File]]:
    directory = tmp_path_factory.mktemp("mixed")
    files = []
    for file_format in FORMATS:
        plugin = default_registry().plugin(file_format, pa.RecordBatch)
        for age, (schema, rows) in enumerate([(FIRST, OLD_ROWS), (SECOND, NEW_ROWS)]):
            file = naive.File(schema=schema, rows=rows)
            files.append(write_with(plugin, Path(directory) / f"{age}.{file_format}", file))
    return make_table(directory, [FIRST, SECOND], files, format_version=3), files


def test_every_shipped_format_is_in_the_table() -> None:
    assert set(FORMATS) == set(default_registry().names())


@pytest.mark.parametrize("where", [None, *QUESTIONS])
def test_one_scan_reads_them_all(mixed: tuple[StaticTable, list[naive.File]], where: str | None) -> None:
    table, files = mixed
    everything = Schema(*SECOND.fields, *METADATA_COLUMNS.values())
    output = Schema(*SECOND.fields, METADATA_COLUMNS["_file"], METADATA_COLUMNS["_pos"])
    predicate = AlwaysTrue() if where is None else parse(where)
    expected = naive.read(files, everything, predicate, output)
    scan = formatkit.scan(table, where, ("*", "_file", "_pos"), batch_rows=2)
    assert comparable(from_arrow(output, scan.to_arrow())) == comparable(expected)
    assert scan.count() == len(expected)
    if where is None:
        assert scan.explain().formats == dict.fromkeys(FORMATS, 2)
