"""What a writer is told beside the rows: properties and key-value pairs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from formatkit.contract import Capability
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.checks.splits import tiles
from formatkit.tck.datasets import MANY_CHUNKS, PRIMITIVES
from formatkit.tck.kits import FormatKit

_UNKNOWN = {"write.no-such-format.codec": "?", "write.no.such.property": "", "not a property": "\0"}
_NO_OFFSETS = "a_file_that_cannot_be_split_has_no_split_offsets"


@check("R9", "X82", layer=Layer.FORMAT)
def unknown_write_properties_are_ignored(kit: FormatKit[Any]) -> None:
    stored = kit.write(PRIMITIVES.schema, PRIMITIVES.rows, properties=_UNKNOWN)
    expect.equal_rows(kit.everything(stored), PRIMITIVES.rows, "rows written with unknown properties")


@check("W1", "J06", "J07", layer=Layer.FORMAT)
def properties_do_not_change_rows(kit: FormatKit[Any]) -> None:
    """Whatever properties of the format are set, one at a time or all at once, the rows are the same."""
    each = [{key: value} for key, value in kit.small_chunks.items()]
    for properties in ({}, *each, kit.small_chunks):
        stored = replace(kit, small_chunks=properties).write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
        expect.equal_rows(kit.everything(stored), MANY_CHUNKS.rows, f"rows written with {dict(properties)}")


@check("R5", "J06", "J07", layer=Layer.FORMAT, when=Capability.SPLIT, twin=_NO_OFFSETS)
def small_chunks_that_are_asked_for_reach_the_file(kit: FormatKit[Any]) -> None:
    """If the kit knows a property of the format for small chunks, setting it makes more parts that can be split."""
    own = {key: value for key, value in kit.small_chunks.items() if key.startswith(f"write.{kit.plugin.file_format}.")}
    small, plain = (_parts(replace(kit, small_chunks=properties)) for properties in (own, {}))
    if own:
        expect.that(small > plain, f"with {own} a file has {small} parts that can be split, and {plain} without")
    else:
        expect.equal(small, plain, "number of parts that can be split without any property of the format")


@check("W5", "X06", layer=Layer.FORMAT, when=Capability.SPLIT, twin=_NO_OFFSETS)
def split_offsets_ascend_inside_the_file(kit: FormatKit[Any]) -> None:
    for data in (PRIMITIVES, MANY_CHUNKS):
        stored = kit.write(data.schema, data.rows)
        offsets = stored.result.split_offsets or ()
        expect.that(stored.result.split_offsets != (), "split offsets are empty; where there are none they are None")
        expect.that(all(one < other for one, other in pairwise(offsets)), f"split offsets do not ascend: {offsets}")
        expect.that(
            all(0 <= offset < len(stored.data) for offset in offsets),
            f"split offsets {offsets} do not lie inside {len(stored.data)} bytes",
        )
        with kit.opened(stored.data) as file:
            expect.equal(file.split_offsets, offsets, "split offsets that the file tells, against the writer's")


@check("W5", "X70", layer=Layer.FORMAT, unless=Capability.SPLIT)
def a_file_that_cannot_be_split_has_no_split_offsets(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    expect.equal(stored.result.split_offsets, None, "split offsets of a file that cannot be split")
    with kit.opened(stored.data) as file:
        expect.equal(file.split_offsets, (), "split offsets that a file tells which cannot be split")


def _parts(kit: FormatKit[Any]) -> int:
    """How many small byte ranges of a file own rows."""
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    return sum(bool(kit.everything(stored, split=split)) for split in tiles(len(stored.data), 64))
