"""A small table for those who use it through pyiceberg."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType

__all__ = ["ANIMALS", "animals", "by_id", "new_table"]

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True, doc="number of the animal"),
    NestedField(2, "kind", StringType()),
    NestedField(3, "weight", DoubleType()),
    NestedField(4, "names", ListType(5, StringType(), element_required=False)),
    NestedField(6, "home", StructType(NestedField(7, "city", StringType()), NestedField(8, "floor", LongType()))),
    identifier_field_ids=[1],
)
_FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("kind", pa.string()),
    pa.field("weight", pa.float64()),
    pa.field("names", pa.list_(pa.field("element", pa.string()))),
    pa.field("home", pa.struct([("city", pa.string()), ("floor", pa.int64())])),
]
ARROW = pa.schema(_FIELDS)
_BY_KIND = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind"))


def animals(*rows: tuple[Any, ...]) -> pa.Table:
    """Rows of id, kind, weight and, if there are more values, names and home."""
    return pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=False)) for row in rows], schema=ARROW)


ANIMALS = animals(
    (1, "cat", 4.5, ["Tom", None], {"city": "Rome", "floor": 2}),
    (2, "dog", None, [], {"city": None, "floor": None}),
    (3, None, 80.0, None, None),
    (4, "cat", math.nan, ["Kit"], {"city": "Oslo", "floor": -1}),
    (5, "dog", 12.0),
    (6, "emu", 40.0),
)


def new_table(
    catalog: Catalog,
    *,
    file_format: str = "parquet",
    partitioned: bool = False,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Table:
    """An empty table."""
    return catalog.create_table(
        f"db.animals_{len(catalog.list_tables('db'))}",
        SCHEMA,
        partition_spec=_BY_KIND if partitioned else PartitionSpec(),
        properties={"write.format.default": file_format, **properties},
    )


def by_id(rows: pa.Table) -> pa.Table:
    """The rows in an order that does not depend on files."""
    return rows.sort_by("id")
