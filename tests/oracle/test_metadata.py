"""The same history, once written by Java and once here, leaves the same metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

import formatkit
from formatkit.tck.naive import Row
from formatkit.tck.rows import from_arrow, to_arrow
from support.iceberg_tables import local_path
from support.oracle.comparing import same_rows
from support.oracle.java_table import JavaTable
from support.oracle.servant import Servant
from support.oracle.shared_table import SharedTable
from support.oracle.specs import spec_of

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "code", IntegerType()),
)
ROWS: list[Row] = [{1: number, 2: f"n{number}", 3: number % 2} for number in range(6)]


def snapshots(metadata_location: str) -> list[dict[str, Any]]:
    """What snapshots say of what they did, without sizes, times and names."""
    path = local_path(metadata_location) if "://" in metadata_location else Path(metadata_location)
    document = json.loads(path.read_text())
    facts = []
    for snapshot in sorted(document["snapshots"], key=lambda each: each.get("sequence-number", each["timestamp-ms"])):
        summary = {
            key: value
            for key, value in snapshot["summary"].items()
            if not key.endswith("files-size") and not key.endswith("version")
        }
        lineage = {key: snapshot.get(key) for key in ("sequence-number", "first-row-id", "added-rows", "schema-id")}
        facts.append(lineage | summary)
    return [*facts, {"next-row-id": document.get("next-row-id")}]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_snapshots_say_the_same(java: Servant, version: int, tmp_path: Path) -> None:
    theirs = JavaTable.create(java, tmp_path / "theirs", SCHEMA, version=version, spec=spec_of([(3, "identity")]))
    ours = SharedTable(java, tmp_path / "ours", SCHEMA, [(3, "identity")], version=version)
    even, odd = theirs.append(ROWS)
    formatkit.append(ours.table, to_arrow(SCHEMA, ROWS))
    theirs.append(ROWS[:1])
    formatkit.append(ours.table, to_arrow(SCHEMA, ROWS[:1]))
    if version > 1:
        delete = [(even, 1), (odd, 0), (odd, 2)]
        theirs.row_delta(positions=delete if version == 2 else (), vectors=delete if version == 3 else ())
        formatkit.delete(ours.table, "id in (2, 1, 5)")
    theirs.replace("delete", where="code = 1")
    formatkit.delete(ours.table, "code = 1", mode="copy-on-write")
    assert snapshots(ours.table.metadata_location) == snapshots(theirs.metadata)


LINEAGE = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2147483540, "_row_id", LongType()),
    NestedField(2147483539, "_last_updated_sequence_number", LongType()),
)


def lineage_here(table: Table) -> list[Row]:
    data = formatkit.scan(table, select=("id", "_row_id", "_last_updated_sequence_number")).to_arrow()
    return from_arrow(LINEAGE, data)


def test_rows_keep_their_ids(java: Servant, tmp_path: Path) -> None:
    """In Parquet, the only format of which this Java reads the ids of rows."""
    shared = SharedTable(java, tmp_path, SCHEMA, version=3)
    formatkit.append(shared.table, to_arrow(SCHEMA, ROWS))
    formatkit.append(shared.table, to_arrow(SCHEMA, ROWS))
    formatkit.delete(shared.table, "id = 3")
    left = lineage_here(shared.table)
    same_rows(shared.by_java().rows(schema=LINEAGE), left)
    formatkit.delete(shared.table, "id = 4", mode="copy-on-write")
    left = [row for row in left if row[1] != 4]
    same_rows(shared.by_java().rows(schema=LINEAGE), left)
    formatkit.rewrite(shared.table, all_files=True)
    same_rows(lineage_here(shared.table), left)
    same_rows(shared.by_java().rows(schema=LINEAGE), left)
