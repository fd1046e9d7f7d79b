"""Tables that Iceberg's own library wrote are read here as it reads them itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from formatkit.tck.naive import Row
from support.everything import ROWS, SCHEMA
from support.oracle.comparing import FORMATS, agree
from support.oracle.events import EVENT_FILTERS, EVENT_ROWS, EVENT_TRANSFORMS, EVENTS
from support.oracle.java_table import JavaTable
from support.oracle.servant import Servant
from support.oracle.specs import spec_of

every_format = pytest.mark.parametrize("file_format", FORMATS)
every_version = pytest.mark.parametrize("version", [1, 2, 3])


@every_version
@every_format
def test_values_of_every_type_are_the_same(java: Servant, file_format: str, version: int, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA, version=version)
    table.append(ROWS, file_format)
    agree(table, among=[as_orc_stores_it(row) for row in ROWS] if file_format == "orc" else ROWS)


def as_orc_stores_it(row: Row) -> Row:
    """Java's writer of ORC moves the last second before 1970 to the first one after it."""
    return row | {key: 999_999 for key in (10, 11) if row[key] == -1}


# Java takes null for the least value when it filters rows, against the spec, so that `<` here comes with `is not null`.
FILTERS = [
    "text = ''",
    "text != 'grüße'",
    "text like 'gr%'",
    "small in (1, 0)",
    "big > 0",
    "point.x is null",
    "tags is not null",
    "double is nan",
    "double is not null and not double is nan",
    "(price is not null and price <= '0.00') or flag is null",
    "day > '1970-01-01'",
    "moment is not null and moment <= '1970-01-01T00:00:00.000000'",
]


@every_format
def test_filters_keep_the_same_rows(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    for where in FILTERS:
        agree(table, where)


@every_format
def test_projections_keep_the_same_rows(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    for names in (["lines", "small"], ["point.y"], ["clock", "scores", "key"]):
        agree(table, "big > 0", select=names)


@pytest.mark.parametrize("parts", EVENT_TRANSFORMS, ids=str)
def test_partitioned_tables_are_pruned_to_the_same_rows(
    java: Servant, parts: list[tuple[int, str]], tmp_path: Path
) -> None:
    table = JavaTable.create(java, tmp_path / "t", EVENTS, spec=spec_of(parts))
    table.append(EVENT_ROWS)
    agree(table, among=EVENT_ROWS)
    for where in EVENT_FILTERS:
        agree(table, where)
