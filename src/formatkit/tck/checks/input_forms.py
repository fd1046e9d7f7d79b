"""The same rows in another physical form make the same file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType

from formatkit.contract import WriteOptions
from formatkit.io import MemorySink
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import NESTED, PRIMITIVES, DataSet
from formatkit.tck.kits import FormatKit, Stored
from formatkit.tck.rows import to_arrow
from formatkit.tck.written import write_arrow


@check("B1", "W2", "X42", layer=Layer.FORMAT)
def batches_in_any_physical_form_are_written_alike(kit: FormatKit[Any]) -> None:
    """Plain, sliced, dictionary, large, view and run-end columns are written alike."""
    for data in (PRIMITIVES, NESTED):
        for form, batch in kit.batches.forms(data.schema, data.rows):
            found = kit.everything(_written(kit, data.schema, [batch]))
            expect.equal_rows(found, data.rows, f"rows of {data.name} given as {form}")


@check("B1", "W2", "X42", layer=Layer.FORMAT)
def batches_of_one_file_may_differ_in_their_form(kit: FormatKit[Any]) -> None:
    forms = list(kit.batches.forms(PRIMITIVES.schema, PRIMITIVES.rows))
    found = kit.everything(_written(kit, PRIMITIVES.schema, [batch for _, batch in forms]))
    expect.equal_rows(
        found, list(PRIMITIVES.rows) * len(forms), f"rows given as {', '.join(name for name, _ in forms)}"
    )


@check("W2", layer=Layer.FORMAT)
def columns_belong_to_fields_by_position_and_not_by_name(kit: FormatKit[Any]) -> None:
    schema = Schema(
        NestedField(1, "a", IntegerType()),
        NestedField(2, "b", IntegerType()),
        NestedField(3, "s", StructType(NestedField(4, "x", LongType()), NestedField(5, "y", LongType()))),
    )
    swapped = Schema(
        NestedField(1, "b", IntegerType()),
        NestedField(2, "a", IntegerType()),
        NestedField(3, "other", StructType(NestedField(4, "y", LongType()), NestedField(5, "x", LongType()))),
    )
    rows = [{1: 1, 2: 2, 3: {4: 3, 5: 4}}]
    found = kit.everything(_written(kit, schema, [kit.batches.batch(swapped, rows)]))
    expect.equal_rows(found, rows, "rows of a batch whose columns have each other's names")


@check("W1", "X42", layer=Layer.FORMAT)
def slices_from_the_middle_of_nested_columns_are_written_alike(kit: FormatKit[Any]) -> None:
    whole = kit.batches.batch(NESTED.schema, NESTED.rows)
    for start in range(len(NESTED.rows)):
        for length in (1, 2):
            part = kit.batches.operations.slice(whole, start, length)
            found = kit.everything(_written(kit, NESTED.schema, [part]))
            expect.equal_rows(found, NESTED.rows[start : start + length], f"{length} nested rows from row {start} on")


@check("B1", "X42", layer=Layer.FORMAT)
def tables_of_uneven_chunks_are_written_in_order(kit: FormatKit[Any]) -> None:
    parts = [
        to_arrow(NESTED.schema, NESTED.rows[start:end], ids=False) for start, end in ((0, 1), (1, 1), (1, 4), (4, 5))
    ]
    stored = write_arrow(kit, MemorySink(), pa.concat_tables(parts), NESTED.schema)
    expect.equal_rows(kit.everything(stored), NESTED.rows, "rows of a table in four chunks")


@check("B1", "X42", layer=Layer.FORMAT)
def lists_in_any_layout_are_written_alike(kit: FormatKit[Any]) -> None:
    """Lists of fixed size, large lists and list views are written as lists."""
    data = DataSet(
        "lists of two",
        Schema(NestedField(1, "list", ListType(2, StringType(), element_required=False))),
        [{1: ["a", None]}, {1: None}, {1: ["", "ä"]}],
    )
    values = [row[1] for row in data.rows]
    for layout in (pa.list_(pa.string(), 2), pa.large_list(pa.string()), pa.list_view(pa.string())):
        given = pa.table([pa.array(values, layout)], ["list"])
        found = kit.everything(write_arrow(kit, MemorySink(), given, data.schema))
        expect.equal_rows(found, data.rows, f"rows given as {layout}")


def _written(kit: FormatKit[Any], schema: Schema, batches: list[Any]) -> Stored:
    sink = MemorySink(location="memory:checked")
    with kit.plugin.writer().open(sink, WriteOptions(schema=schema, properties=kit.small_chunks)) as writer:
        for batch in batches:
            writer.write(batch)
        result = writer.close()
    if result is None or sink.data is None:
        raise AssertionError("rows were written, but there is no file")
    return Stored(sink.data, result, schema, ())
