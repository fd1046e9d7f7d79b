"""Tables that Iceberg's own library wrote have no finding, and neither have ours after it changed them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import formatkit
from support.everything import ROWS, SCHEMA
from support.oracle.comparing import FORMATS
from support.oracle.events import EVENT_ROWS, EVENT_TRANSFORMS, EVENTS
from support.oracle.java_table import JavaTable
from support.oracle.servant import Servant
from support.oracle.specs import spec_of


def sound(table: JavaTable) -> None:
    assert [str(finding) for finding in formatkit.validate(table.metadata).findings] == []


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("file_format", FORMATS)
def test_tables_with_values_of_every_type_are_sound(
    java: Servant, file_format: str, version: int, tmp_path: Path
) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA, version=version)
    table.append(ROWS, file_format)
    table.append(ROWS[:3], file_format)
    sound(table)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("transforms", EVENT_TRANSFORMS, ids=str)
def test_partitioned_tables_are_sound(java: Servant, file_format: str, transforms: Any, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", EVENTS, spec=spec_of(transforms))
    # Java's writer of ORC moves the last second before 1970 to the first one after it, and so into another partition.
    rows = [row for row in EVENT_ROWS if file_format != "orc" or row[4] != -1]
    table.append(rows, file_format)
    sound(table)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("file_format", FORMATS)
def test_tables_with_deletes_are_sound(java: Servant, file_format: str, version: int, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA, version=version)
    (location,) = table.append(ROWS, file_format)
    if version == 2:
        table.row_delta(file_format, positions=[(location, 0), (location, 2)])
    else:
        table.row_delta(file_format, vectors=[(location, 0), (location, 2)])
    sound(table)
    table.replace("rewrite-manifests")
    sound(table)
