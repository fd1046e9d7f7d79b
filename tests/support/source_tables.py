"""A table for tests of the data source: three snapshots, a branch and a tag, in a catalog that any process can open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

import formatkit

__all__ = ["FIRST", "SECOND", "THIRD", "WORDS", "KnownTable", "known_table"]

FIRST = [(1, "one"), (2, "two"), (3, "three")]
SECOND = [(4, "four"), (5, None)]
THIRD = [(6, "six", 60)]
WORDS = [(*row, None) for row in FIRST + SECOND] + THIRD


@dataclass(frozen=True)
class KnownTable:
    """The table ``db.words`` with the rows `WORDS`; ``db.empty`` is beside it.

    The second snapshot has the tag ``second``, the third adds the column ``size``, and the branch ``old`` stays at the
    first.

    Attributes:
        properties: Of the catalog ``local``.
        table: The table.
        snapshots: Their ids.
        moments: When they were made, in milliseconds.
    """

    properties: dict[str, str]
    table: Table
    snapshots: list[int]
    moments: list[int]

    def options(self, **more: Any) -> dict[str, str]:
        """Options of the data source, with the catalog; an underscore stands for a hyphen."""
        properties = {f"catalog.{name}": value for name, value in self.properties.items()}
        asked = {name.replace("_", "-"): str(value) for name, value in more.items()}
        return {"path": "db.words", "catalog": "local", **properties, **asked}


@contextmanager
def known_table(folder: Path) -> Iterator[KnownTable]:
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
    catalog = load_catalog("local", **properties)
    catalog.create_namespace("db")
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType(), doc="A name"))
    table = catalog.create_table("db.words", schema)
    catalog.create_table("db.empty", schema)
    snapshots, moments = [], []
    for rows in (FIRST, SECOND, THIRD):
        if rows is THIRD:
            table.update_schema().add_column("size", IntegerType()).commit()
        columns = [list(column) for column in zip(*rows, strict=True)]
        formatkit.append(table, pa.table(columns, schema=formatkit.scan(table).arrow_schema))
        table.refresh()
        snapshots.append(table.metadata.snapshots[-1].snapshot_id)
        moments.append(table.metadata.snapshots[-1].timestamp_ms)
        time.sleep(0.005)
    table.manage_snapshots().create_branch(snapshots[0], "old").create_tag(snapshots[1], "second").commit()
    yield KnownTable(properties, table, snapshots, moments)
    catalog.close()
