"""Byte ranges of a file: every row in exactly one of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue

from formatkit.contract import POS, Capability, ReadOptions, Split
from formatkit.errors import UnsupportedError
from formatkit.tck import expect, naive
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS
from formatkit.tck.histories import schemas
from formatkit.tck.kits import FormatKit
from formatkit.tck.strategies import predicates, rows

REFUSAL = "a_split_that_is_not_declared_is_refused"


@check("R5", "J16", "X01", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def splits_of_any_size_hold_every_row_once_in_order(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    for size in (64, 1009, len(stored.data) - 1):
        found = [row for split in tiles(len(stored.data), size) for row in kit.everything(stored, split=split)]
        expect.equal_rows(found, stored.rows, f"rows of all splits of {size} bytes")


@check("R5", "R6", "X01", "X03", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def splits_of_random_files_hold_every_row_that_matches_once_with_its_position(kit: FormatKit[Any]) -> None:
    @kit.random(st.data(), st.lists(st.integers(0, 1 << 20), max_size=3), st.integers(1, 13))
    def holds(data: st.DataObject, cuts: list[int], batch_rows: int) -> None:
        schema = data.draw(schemas(nanoseconds=kit.nanoseconds), label="schema")
        stored = kit.write(schema, data.draw(rows(schema, min_size=1), label="rows"))
        where = data.draw(st.just(AlwaysTrue()) | predicates(schema), label="predicate")
        found = [
            row
            for split in parts(len(stored.data), cuts)
            for row in kit.everything(stored, where, split=split, batch_rows=batch_rows, extra=[POS])
        ]
        expected = [
            {**row, POS.field_id: number} for number, row in enumerate(stored.rows) if naive.matches(row, schema, where)
        ]
        expect.equal_rows(found, expected, "rows of all splits")


@check("R5", "X01", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def splits_that_end_one_byte_beside_a_chunk_lose_nothing(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    edges = (stored.result.split_offsets or ())[1:3]
    for cut in (edge + step for edge in edges for step in (-1, 0, 1)):
        found = [row for split in parts(len(stored.data), [cut]) for row in kit.everything(stored, split=split)]
        expect.equal_rows(found, stored.rows, f"rows before and after byte {cut}")


@check("R5", "J16", "X02", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def splits_at_the_split_offsets_hold_one_chunk_each(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    offsets = stored.result.split_offsets or (0,)
    chunks = [kit.everything(stored, split=split) for split in parts(len(stored.data), offsets)]
    expect.equal_rows([row for chunk in chunks for row in chunk], stored.rows, "rows of all chunks")
    empty = [number for number, chunk in enumerate(chunks) if not chunk and (number or not offsets[0])]
    expect.equal(empty, [], "splits from one offset to the next that hold no rows")


@check("R5", "J16", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def a_split_without_bytes_holds_no_rows(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    for start in (0, len(stored.data) // 2, len(stored.data)):
        expect.equal_rows(kit.everything(stored, split=Split(start, 0)), [], f"rows of no bytes from {start}")


@check("R5", layer=Layer.FORMAT)
def a_split_that_is_the_whole_file_holds_every_row(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    expect.equal_rows(kit.everything(stored, split=Split(0, len(stored.data))), stored.rows)


@check("R5", "X70", layer=Layer.FORMAT, unless=Capability.SPLIT)
def a_split_that_is_not_declared_is_refused(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file, expect.raises(UnsupportedError, when="reading half of a file"):
        kit.read(file, ReadOptions(projection=file.schema, split=Split(0, len(stored.data) // 2)))


def tiles(length: int, size: int) -> list[Split]:
    """Ranges of a size that cover a file; the last one may be shorter."""
    return parts(length, range(0, length, size))


def parts(length: int, cuts: Iterable[int]) -> list[Split]:
    """The ranges between cuts, which are taken from the start of the file again where they lie outside it."""
    edges = sorted({0, length, *(cut % length for cut in cuts)})
    return [Split(start, end - start) for start, end in pairwise(edges)]
