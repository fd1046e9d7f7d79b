"""The batches that a reader hands out: how large they are, in which order they come, and how long they live."""

from __future__ import annotations

from typing import Any

from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema

from formatkit.contract import Capability, OpenOptions, ReadOptions
from formatkit.io import MemorySource
from formatkit.kernel import bind
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.checks.pushdown import matching
from formatkit.tck.datasets import MANY_CHUNKS, NESTED, PRIMITIVES
from formatkit.tck.kits import FormatKit, Stored

BATCH_ROWS = (1, 2, 4, 7, 59, 60)
"""One row, a chunk less one, a chunk and one, more than two chunks, and the whole file, almost and altogether."""


@check("R7", "X07", layer=Layer.FORMAT)
def no_batch_is_larger_than_was_asked_for(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows, batch_rows=60)
    with kit.opened(stored.data) as file:
        for batch_rows in BATCH_ROWS:
            for projection in (file.schema, Schema()):
                options = ReadOptions(projection=projection, batch_rows=batch_rows)
                with file.read(options).batches as batches:
                    sizes = [kit.batches.operations.num_rows(batch) for batch in batches]
                expect.that(
                    max(sizes) <= batch_rows, f"a batch of {max(sizes)} rows, at most {batch_rows} were asked for"
                )


@check("R7", "X07", layer=Layer.FORMAT)
def rows_come_in_file_order_whatever_the_size_of_batches(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    for batch_rows in BATCH_ROWS:
        expect.equal_rows(kit.everything(stored, batch_rows=batch_rows), stored.rows, f"in batches of {batch_rows}")


@check("R7", "X07", layer=Layer.FORMAT)
def rows_that_match_come_in_file_order(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    where = parse("name != 'name 2' and id > 4")
    for batch_rows in BATCH_ROWS[:4]:
        found = kit.everything(stored, where, batch_rows=batch_rows)
        expect.equal_rows(found, matching(stored, where), f"rows where {where}, in batches of {batch_rows}")


@check("R7", "X86", layer=Layer.FORMAT)
def batches_stay_valid_after_the_next_one_is_read(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        options = ReadOptions(projection=file.schema, batch_rows=4)
        with file.read(options).batches as batches:
            kept = list(batches)
            found = [row for batch in kept for row in kit.batches.rows(stored.schema, batch)]
    expect.equal_rows(found, stored.rows, "rows of batches that were kept")


@check("R7", "X86", layer=Layer.FORMAT)
def batches_stay_valid_after_everything_was_closed(kit: FormatKit[Any]) -> None:
    for data in (PRIMITIVES, NESTED):
        stored = kit.write(data.schema, data.rows)
        source = MemorySource(stored.data)
        file = kit.plugin.reader().open(source, OpenOptions())
        stream = file.read(ReadOptions(projection=file.schema, batch_rows=2)).batches
        kept = list(stream)
        stream.close()
        file.close()
        source.close()
        found = [row for batch in kept for row in kit.batches.rows(stored.schema, batch)]
        expect.equal_rows(found, stored.rows, f"rows of {data.name} after everything was closed")


@check("R3", "X84", layer=Layer.FORMAT)
def batches_are_of_the_declared_type(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file, file.read(ReadOptions(projection=file.schema)).batches as batches:
        for batch in batches:
            expect.that(isinstance(batch, kit.plugin.batch_type), f"a batch is {type(batch)}, not what is declared")


@check("R3", layer=Layer.FORMAT, when=Capability.EVOLVE, twin="a_target_that_is_not_declared_changes_nothing")
def batches_are_in_the_target_if_the_reader_says_so(kit: FormatKit[Any]) -> None:
    stored, options = _with_target(kit)
    with kit.opened(stored.data) as file:
        result = file.read(options)
        with result.batches as batches:
            schema = options.target if result.schema_evolved and options.target else options.projection
            found = [row for batch in batches for row in kit.batches.rows(schema, batch)]
    expect.equal_rows(found, [{field.field_id: row[field.field_id] for field in schema.fields} for row in stored.rows])


@check("R3", "X70", layer=Layer.FORMAT, unless=Capability.EVOLVE)
def a_target_that_is_not_declared_changes_nothing(kit: FormatKit[Any]) -> None:
    stored, options = _with_target(kit)
    with kit.opened(stored.data) as file:
        result = file.read(options)
        result.batches.close()
        expect.that(not result.schema_evolved, "a reader that does not declare it says that it evolved its batches")
        expect.equal_rows(kit.read(file, options, stored.schema), stored.rows)


@check("R3", layer=Layer.FORMAT)
def a_reader_that_is_given_no_target_does_not_evolve(kit: FormatKit[Any]) -> None:
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, "id > 3")))
        result.batches.close()
    expect.that(not result.schema_evolved, "a reader that was given no target says that it evolved its batches")


def _with_target(kit: FormatKit[Any]) -> tuple[Stored, ReadOptions]:
    """A file, and the question for its columns in reverse order."""
    stored = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)
    with kit.opened(stored.data) as file:
        return stored, ReadOptions(projection=file.schema, target=Schema(*reversed(file.schema.fields)))
