"""Files with variants among their columns, filtered and projected, against the naive evaluator."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, IntegerType, ListType, MapType, NestedField, StringType, StructType

import formatkit
from formatkit.contract import VariantType
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.tck import naive
from formatkit.tck.naive import File
from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.strategies import leaf_types, predicates, rows
from formatkit.tck.tables import make_table, write_with

PARQUET: Any = ParquetFormat()
SHAPES: list[IcebergType] = [
    VariantType(),
    ListType(20, VariantType(), element_required=False),
    ListType(20, VariantType(), element_required=True),
    MapType(21, StringType(), 22, VariantType(), value_required=False),
    StructType(NestedField(23, "v", VariantType(), required=True), NestedField(24, "n", IntegerType())),
    StructType(
        NestedField(23, "v", VariantType()), NestedField(25, "s", StructType(NestedField(26, "w", VariantType())))
    ),
]


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    return Schema(
        NestedField(1, "a", draw(leaf_types(variant=True))),
        NestedField(2, "b", draw(st.sampled_from(SHAPES))),
        NestedField(3, "c", VariantType(), required=draw(st.booleans())),
    )


@given(st.data())
def test_variants_are_read_as_they_were_written(data: st.DataObject) -> None:
    schema = data.draw(schemas(), label="schema")
    stored = data.draw(rows(schema, min_size=1), label="rows")
    later = Schema(*schema.fields, NestedField(9, "later", VariantType()), schema_id=1)
    predicate = data.draw(predicates(later), label="where")
    names = data.draw(st.lists(st.sampled_from(["a", "b", "c", "later"]), unique=True, min_size=1), label="select")
    output = Schema(*(later.find_field(name) for name in names))
    properties = {"write.parquet.row-group-limit": "4"}
    with tempfile.TemporaryDirectory() as directory:
        file = write_with(
            PARQUET, Path(directory) / "a.parquet", File(schema=schema, rows=stored), properties=properties
        )
        table = make_table(Path(directory), [schema, later], [file], format_version=3)
        found = formatkit.scan(table, predicate, names).to_arrow()
    expected = naive.read([file], later, predicate, output)
    assert comparable(from_arrow(output, found)) == comparable(expected)
