"""Row ids and sequence numbers: stored, inherited, or unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from formatkit.contract import Capability
from formatkit.contract.metadata_columns import LAST_UPDATED, ROW_ID
from formatkit.tck.check import Layer, check
from formatkit.tck.naive import File
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import ID, file_of

_TABLE = Schema(ID, NestedField(2, "after", IntegerType()))
_LINEAGE = ("_row_id", "_last_updated_sequence_number")


def _file(*stored: NestedField, first_row_id: int | None = 100) -> File:
    """Ten rows; the stored columns, which have data after them, have values in even rows and nulls in odd ones."""
    schema = Schema(ID, *stored, _TABLE.fields[1])
    rows = [(n, *(None if n % 2 else 50 + n for _ in stored), n * 10) for n in range(10)]
    return file_of(schema, *rows, first_row_id=first_row_id, sequence_number=5)


@check("P7", "J23", layer=Layer.SCAN)
def lineage_that_is_not_stored_is_inherited(kit: ScanKit[Any]) -> None:
    files = [_file(), replace(_file(first_row_id=200), sequence_number=6)]
    with kit.built([_TABLE], files, format_version=3) as table:
        table.compare(select=_LINEAGE)
        table.compare(select=("id", *_LINEAGE, "after"))


@check("P7", "J24", layer=Layer.SCAN)
def lineage_that_is_stored_wins_and_its_nulls_are_inherited(kit: ScanKit[Any]) -> None:
    with kit.built([_TABLE], [_file(ROW_ID, LAST_UPDATED)], format_version=3) as table:
        table.compare(select=_LINEAGE)
        table.compare(select=("after", *_LINEAGE, "id"))


@check("P7", "X60", layer=Layer.SCAN)
def lineage_is_null_where_the_first_row_id_is_unknown(kit: ScanKit[Any]) -> None:
    for stored in ((), (ROW_ID,), (LAST_UPDATED,), (ROW_ID, LAST_UPDATED)):
        file = _file(*stored, first_row_id=None)
        with kit.built([_TABLE], [file], format_version=3) as table:
            table.compare(select=("id", *_LINEAGE, "after"))


@check("P7", "X60", layer=Layer.SCAN)
def lineage_is_right_whatever_is_stored_and_filtered(kit: ScanKit[Any]) -> None:
    for stored in ((), (ROW_ID,), (LAST_UPDATED,), (ROW_ID, LAST_UPDATED)):
        with kit.built([_TABLE], [_file(*stored)], format_version=3) as table:
            for where in ("id > 4", "after = 30", "_row_id = 107", "_row_id < 105 and id > 1"):
                table.compare(where, select=("after", *_LINEAGE))
            table.compare("_last_updated_sequence_number != 5")


@check("P7", "X60", layer=Layer.SCAN, when=Capability.SPLIT, twin="a_split_that_is_not_declared_is_refused")
def lineage_does_not_depend_on_splits(kit: ScanKit[Any]) -> None:
    output = Schema(ID, ROW_ID, LAST_UPDATED, _TABLE.fields[1])
    for stored in ((), (ROW_ID, LAST_UPDATED)):
        for size in (64, 333):
            kit.compare_file(_file(*stored), output, "id > 3", split_bytes=size, batch_rows=2)
