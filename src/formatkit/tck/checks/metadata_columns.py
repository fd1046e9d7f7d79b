"""The columns that Iceberg adds to every table, whatever is skipped, split or filtered."""

from __future__ import annotations

from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType, StructType

from formatkit.contract import Capability
from formatkit.contract.metadata_columns import DELETED, FILE, POS, SPEC_ID
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS
from formatkit.tck.naive import File
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import ID, file_of

_MANY = File(schema=MANY_CHUNKS.schema, rows=MANY_CHUNKS.rows)
_FEW = File(schema=MANY_CHUNKS.schema, rows=MANY_CHUNKS.rows[:4])
# They skip the first chunks, the last, some in between, and rows inside of them.
_FILTERS = (None, "id >= 10", "id < 50", "id > 22 and id < 25", "name = 'name 3'", "name is null", "id = 59")
_A, _B = NestedField(2, "a", StringType()), NestedField(3, "b", IntegerType())
_TABLE = Schema(ID, _A, _B)


@check("P6", "J19", layer=Layer.SCAN)
def every_row_knows_its_file(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_MANY, _FEW]) as table:
        table.compare(select=("_file",))
        table.compare("id < 3", select=("_file", "id"))


@check("P6", "J20", layer=Layer.SCAN)
def every_row_knows_its_spec(kit: ScanKit[Any]) -> None:
    specs = [PartitionSpec(spec_id=0), _spec(4, _by("a"))]
    files = [file_of(_TABLE, (0, "x", 1)), file_of(_TABLE, (1, "y", 2), partition={1000: "y"}, spec_id=4)]
    with kit.built([_TABLE], files, specs=specs) as table:
        table.compare(select=("_spec_id",))
        table.compare("_spec_id = 4", select=("id", "_spec_id"))


@check("P6", "J21", layer=Layer.SCAN)
def every_row_knows_its_position(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_MANY, _FEW]) as table:
        table.compare(select=("_pos",))
        table.compare(select=("name", "_pos", "id"))


@check("P6", "J22", layer=Layer.SCAN)
def no_row_is_deleted(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_FEW]) as table:
        table.compare(select=("_deleted",))
        table.compare("_deleted = false", select=("id", "_deleted"))


@check("P6", "J25", layer=Layer.SCAN)
def every_row_knows_its_partition(kit: ScanKit[Any]) -> None:
    files = [file_of(_TABLE, (0, value, 1), (1, value, None), partition={1000: value}) for value in ("x", "", None)]
    with kit.built([_TABLE], files, specs=[_spec(0, _by("a"))]) as table:
        table.compare(select=("_partition",))
        table.compare("b = 1", select=("id", "_partition", "b"))


@check("P6", "J26", layer=Layer.SCAN)
def partition_fields_that_were_added_later_are_null(kit: ScanKit[Any]) -> None:
    old = file_of(_TABLE, (0, "x", 1), partition={1000: "x", 1001: None})
    new = file_of(_TABLE, (1, "y", 2), partition={1000: "y", 1001: 2}, spec_id=1)
    with kit.built([_TABLE], [old, new], specs=[_spec(0, _by("a")), _spec(1, _by("a"), _by("b"))]) as table:
        table.compare(select=("id", "_partition"))


@check("P6", "J27", layer=Layer.SCAN)
def partition_fields_that_were_removed_are_null(kit: ScanKit[Any]) -> None:
    """Fields are told by id: what is left may stand at another place in a later spec."""
    bucket = PartitionField(3, 1002, BucketTransform(4), "b_bucket")
    old = file_of(_TABLE, (0, "x", 1), partition={1000: "x", 1001: 1, 1002: None})
    new = file_of(_TABLE, (1, "y", 2), partition={1000: None, 1001: 2, 1002: 3}, spec_id=1)
    specs = [_spec(0, _by("a"), _by("b")), _spec(1, bucket, _by("b"))]
    with kit.built([_TABLE], [old, new], specs=specs) as table:
        table.compare(select=("_partition", "id"))
        table.compare("id = 1", select=("_partition",))


def _by(column: str) -> PartitionField:
    source = _TABLE.find_field(column).field_id
    return PartitionField(source, 998 + source, IdentityTransform(), column)


def _spec(spec_id: int, *fields: PartitionField) -> PartitionSpec:
    return PartitionSpec(*fields, spec_id=spec_id)


@check("P6", "X37", layer=Layer.SCAN)
def columns_with_the_names_of_metadata_are_data(kit: ScanKit[Any]) -> None:
    schema = Schema(
        ID,
        NestedField(2, "pos", IntegerType()),
        NestedField(3, "file_path", StringType()),
        NestedField(4, "row", StructType(NestedField(5, "_pos", IntegerType()), NestedField(6, "_file", StringType()))),
    )
    file = file_of(schema, (0, 7, "a", {5: 8, 6: "b"}), (1, None, None, None), (2, 8, "", {5: 7, 6: None}))
    with kit.built([schema], [file]) as table:
        table.compare()
        table.compare("pos = 7")
        table.compare("row._pos = 8", select=("row", "_pos", "_file", "pos"))


@check("P6", layer=Layer.SCAN)
def metadata_is_right_under_filters_and_any_batch_size(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_MANY, _FEW]) as table:
        for where in _FILTERS:
            for batch_rows in (1, 7, 1000):
                table.compare(where, select=("_pos", "_file", "id", "_spec_id"), batch_rows=batch_rows)


@check("P5", "P6", layer=Layer.SCAN)
def metadata_columns_can_be_filtered(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_MANY, _FEW]) as table:
        for where in ("_pos in (1, 3, 58)", "_pos > 40 and id < 45", "_pos = 2 or name = 'name 3'", "_pos != 3"):
            table.compare(where)
        table.compare(f"_file = '{table.files[1].location}'", select=("id", "_pos"))


@check("P6", layer=Layer.SCAN, when=Capability.SPLIT, twin="a_split_that_is_not_declared_is_refused")
def metadata_is_right_in_every_split(kit: ScanKit[Any]) -> None:
    output = Schema(*_MANY.schema.fields, POS, FILE, SPEC_ID, DELETED)
    for size, where in ((97, None), (97, "id > 22 and id < 25"), (1009, None), (1009, "name = 'name 3'")):
        kit.compare_file(_MANY, output, where, split_bytes=size, batch_rows=7)
