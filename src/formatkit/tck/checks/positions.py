"""The ordinals of rows in their file: `_pos`."""

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema

from formatkit.contract import POS, Capability, ReadOptions, Split
from formatkit.tck import expect, naive
from formatkit.tck.check import Layer, check
from formatkit.tck.checks.splits import REFUSAL, tiles
from formatkit.tck.datasets import MANY_CHUNKS
from formatkit.tck.kits import FormatKit, Stored

BATCH_ROWS = (1, 2, 4, 7)


@check("R6", "J21", "X08", layer=Layer.FORMAT)
def positions_can_be_asked_for_alone(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        found = kit.read(file, ReadOptions(projection=Schema(POS), batch_rows=7))
    expect.equal([row[POS.field_id] for row in found], list(range(len(stored.rows))), "positions")


@check("R6", "X03", layer=Layer.FORMAT)
def positions_count_on_from_batch_to_batch(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    for batch_rows in BATCH_ROWS:
        found = kit.everything(stored, batch_rows=batch_rows, extra=[POS])
        expect.equal_rows(found, with_positions(stored), f"rows in batches of {batch_rows}")


@check("R6", "X03", layer=Layer.FORMAT)
def positions_are_those_of_the_file_when_rows_are_left_out(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    for text in ("id >= 40", "id in (4, 31, 59)", "id < 3 or name = 'name 3'"):
        for batch_rows in (2, 7):
            found = kit.everything(stored, parse(text), batch_rows=batch_rows, extra=[POS])
            expect.equal_rows(found, with_positions(stored, parse(text)), f"where {text}, in batches of {batch_rows}")


@check("R6", "X03", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def positions_are_those_of_the_file_in_every_split(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    where = parse("id > 8 and name != 'name 3'")
    found = [
        row
        for split in tiles(len(stored.data), len(stored.data) // 7)
        for row in kit.everything(stored, where, split=split, batch_rows=2, extra=[POS])
    ]
    expect.equal_rows(found, with_positions(stored, where), "rows of all splits")


@check("R6", "X04", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def positions_are_right_in_a_split_that_begins_inside_a_chunk(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    expected = with_positions(stored)
    for start in range(7, len(stored.data), len(stored.data) // 11):
        found = kit.everything(stored, split=Split(start, len(stored.data) - start), extra=[POS])
        expect.equal_rows(found, expected[len(expected) - len(found) :], f"rows from byte {start} on")


def with_positions(stored: Stored, where: BooleanExpression | None = None) -> list[naive.Row]:
    """The rows that match, each with its ordinal."""
    return [
        {**row, POS.field_id: number}
        for number, row in enumerate(stored.rows)
        if where is None or naive.matches(row, stored.schema, where)
    ]
