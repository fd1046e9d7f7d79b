"""Byte ranges of a file: every row in exactly one of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from formatkit.contract import POS, Capability, ReadOptions, Split
from formatkit.errors import UnsupportedError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS
from formatkit.tck.histories import schemas
from formatkit.tck.kits import FormatKit
from formatkit.tck.strategies import rows


@check("R5", "J16", "X01", layer=Layer.FORMAT, when=Capability.SPLIT, twin="a_split_that_is_not_declared_is_refused")
def splits_of_any_size_hold_every_row_once_in_order(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    for size in (64, 97, 1009, len(stored.data) - 1, len(stored.data)):
        found = [row for split in tiles(len(stored.data), size) for row in kit.everything(stored, split=split)]
        expect.equal_rows(found, stored.rows, f"rows of all splits of {size} bytes")


@check("R5", "X01", layer=Layer.FORMAT, when=Capability.SPLIT, twin="a_split_that_is_not_declared_is_refused")
def splits_of_random_files_hold_every_row_once_with_its_position(kit: FormatKit[Any]) -> None:
    @kit.random(st.data(), st.integers(16, 400))
    def holds(data: st.DataObject, size: int) -> None:
        schema = data.draw(schemas(), label="schema")
        stored = kit.write(schema, data.draw(rows(schema, min_size=1), label="rows"))
        found = [
            row for split in tiles(len(stored.data), size) for row in kit.everything(stored, split=split, extra=[POS])
        ]
        expected = [{**row, POS.field_id: number} for number, row in enumerate(stored.rows)]
        expect.equal_rows(found, expected, "rows of all splits")


@check("R5", "X70", layer=Layer.FORMAT, unless=Capability.SPLIT)
def a_split_that_is_not_declared_is_refused(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file, expect.raises(UnsupportedError, when="reading half of a file"):
        kit.read(file, ReadOptions(projection=file.schema, split=Split(0, len(stored.data) // 2)))


def tiles(length: int, size: int) -> list[Split]:
    """Ranges of a size that cover a file; the last one may be shorter."""
    return [Split(start, min(size, length - start)) for start in range(0, length, size)]
