"""Columns that Iceberg has no type for are never read as nulls in silence."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, UnknownType

import formatkit
from formatkit.errors import UnsupportedError


def parquet_file(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def arrow_file(table: pa.Table) -> bytes:
    table = table.set_column(1, "odd", pa.array(range(table.num_rows), pa.duration("s")))
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def avro_file(table: pa.Table) -> bytes:
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 39}
    fields = [{"name": "id", "type": "long"}, {"name": "odd", "type": wide}]
    sink = io.BytesIO()
    rows = [{"id": row["id"], "odd": Decimal(row["odd"])} for row in table.to_pylist()]
    fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, rows)
    return sink.getvalue()


TABLE = pa.table({"id": pa.array([1, 2], pa.int64()), "odd": pa.array([2**63, 0], pa.uint64())})
LONG = TABLE.set_column(1, "odd", pa.array([2, 0], pa.decimal256(60)))
FILES = {"parquet": parquet_file(LONG), "arrow": arrow_file(TABLE), "avro": avro_file(TABLE)}
each_format = pytest.mark.parametrize("file", FILES.values(), ids=FILES.keys())


@each_format
@pytest.mark.parametrize(
    "asked", [{}, {"select": ("odd",)}, {"select": ("id",), "where": "odd is null"}], ids=["all", "selected", "filter"]
)
def test_asking_for_one_says_why_it_cannot_be_had_and_what_can(file: bytes, asked: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"'odd' of .* cannot be read: .*; select other columns: 'id'"):
        formatkit.read_file(file, **asked)


@each_format
def test_the_others_are_read_and_rows_are_counted(file: bytes) -> None:
    assert formatkit.read_file(file, select=("id",)).to_arrow()["id"].to_pylist() == [1, 2]
    assert formatkit.read_file(file, select=("id",), where="_pos = 1").count() == 1


def test_one_inside_of_a_struct_is_refused_too() -> None:
    nested = pa.array([{"good": 1, "odd": 2}], pa.struct([("good", pa.int64()), ("odd", pa.decimal256(60))]))
    file = parquet_file(pa.table({"struct": nested}))
    with pytest.raises(UnsupportedError, match=r"'struct\.odd' of .* select other columns: 'struct\.good'"):
        formatkit.read_file(file)
    assert formatkit.read_file(file, select=("struct.good",)).to_arrow().to_pylist() == [{"struct": {"good": 1}}]


def test_a_schema_that_calls_it_unknown_means_nulls() -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "odd", UnknownType()))
    assert formatkit.read_file(FILES["arrow"], schema=schema).to_arrow()["odd"].to_pylist() == [None, None]
