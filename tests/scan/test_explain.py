"""What a scan says about itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, LongType, NestedField, StringType, StructType, TimestamptzType

import formatkit
from formatkit.kernel import bind
from formatkit.scan.predicate_text import predicate_text

SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "s", StringType()),
    NestedField(3, "d", DateType()),
    NestedField(4, "t", TimestamptzType()),
    NestedField(5, "pair", StructType(NestedField(6, "a", LongType()))),
)


@pytest.mark.parametrize(
    "text",
    [
        "n = 1",
        "n != 1 and s is not null",
        "(n < 1 or n >= 5) and s = 'x'",
        "n in (1, 2, 3) or s is null",
        "d >= '2020-02-29'",
        "pair.a > 7",
        "s starts with 'ab' and s not starts with 'abc'",
        "n not in (1, 2)",
    ],
)
def test_predicates_print_as_people_write_them(text: str) -> None:
    written = text.replace("not starts with 'abc'", "not like 'abc%'").replace("starts with 'ab'", "like 'ab%'")
    assert predicate_text(bind(SCHEMA, written)) == text


def test_times_print_as_times() -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC).isoformat()
    assert predicate_text(bind(SCHEMA, f"t < '{moment}'")) == f"t < '{moment}'"


def test_long_sets_are_cut() -> None:
    values = ", ".join(map(str, range(100)))
    assert predicate_text(bind(SCHEMA, f"n in ({values})")) == "n in (0, 1, 2, 3, 4, … 95 more)"


def test_constants_print_as_words() -> None:
    assert predicate_text(AlwaysTrue()) == "true"
    assert predicate_text(AlwaysFalse()) == "false"


def test_an_explanation_is_plain_data(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"n": range(100)}), path, row_group_size=10)
    scan = formatkit.read_file(path, "n > 90 and n != 95", limit=3)
    assert scan.to_arrow().num_rows == 3
    facts = json.loads(json.dumps(scan.explain().to_dict()))
    assert facts["filter"] == "n > 90 and n != 95"
    assert facts["run"]["row_groups_read"] < 10
    assert "last run" in str(scan.explain())
    assert repr(scan) == "<Scan of 1 tasks: n>"
