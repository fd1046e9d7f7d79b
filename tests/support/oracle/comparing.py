"""Both sides read a table, and must see the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from pyiceberg.table import Table

import formatkit
from formatkit.tck.naive import Row
from formatkit.tck.rows import comparable, from_arrow
from support.oracle.java_table import JavaTable

__all__ = ["FORMATS", "agree", "read_here", "same_rows"]

FORMATS = ("parquet", "orc", "avro")


def read_here(table: Table, where: str | None = None, select: Sequence[str] = ("*",)) -> list[Row]:
    """What formatkit reads of the table."""
    scan = formatkit.scan(table, where, select)
    return from_arrow(scan.schema, scan.to_arrow())


def agree(
    table: JavaTable,
    where: str | None = None,
    *,
    select: Sequence[str] = ("*",),
    among: Iterable[Row] | None = None,
) -> list[Row]:
    """Java and formatkit read the same rows (the ones given, if any); returns them."""
    schema = table.schema if tuple(select) == ("*",) else table.schema.select(*select)
    theirs = table.rows(schema=schema, where=where)
    ours = read_here(table.load(), where, select)
    same_rows(ours, theirs, where)
    if among is not None:
        same_rows(ours, among, where)
    return ours


def same_rows(ours: Iterable[Row], expected: Iterable[Row], hint: object = "") -> None:
    """The same rows as often, in any order; a failure shows only the ones that differ."""
    # Tables are sets: nobody promises an order of files.
    found, wanted = (Counter(comparable(_without_order(row) for row in rows)) for rows in (ours, expected))
    if found != wanted:
        too_many, missing = (sorted(rows.elements()) for rows in (found - wanted, wanted - found))
        pytest.fail(f"{hint}\ntoo many: {too_many}\nmissing: {missing}")


def _without_order(value: Any) -> Any:
    """The same value with its maps, which are lists of pairs, sorted: Java's reader of ORC loses their order."""
    match value:
        case dict():
            return {key: _without_order(item) for key, item in value.items()}
        case list():
            elements = [_without_order(element) for element in value]
            is_map = bool(elements) and all(isinstance(element, tuple) for element in elements)
            return sorted(elements, key=repr) if is_map else elements
        case tuple():
            return tuple(_without_order(item) for item in value)
    return value
