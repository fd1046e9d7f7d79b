"""Identity partitions: their values stand in for columns that files lack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, Transform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    NestedField,
    StringType,
    StructType,
)

from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.literals import internal
from formatkit.tck.naive import File
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import ID, PARTITION, file_of, partitioned_by
from formatkit.tck.traps import TRAPS_ABOUT, by_table

_P, _V = NestedField(2, "p", IntegerType()), NestedField(3, "v", IntegerType())
_FALSY: Sequence[tuple[IcebergType, Any, Any]] = [
    (IntegerType(), 0, 3),
    (BooleanType(), False, True),
    (StringType(), "", "x"),
    (BinaryType(), b"", b"\x80"),
    (DateType(), 0, -1),
    (DecimalType(9, 2), "0.00", "-1.50"),
]


def _hive_file(value: Any, kind: IcebergType | None = None) -> File:
    """A file that lacks column 2, as Hive leaves partition columns out."""
    constant = internal(value, kind or IntegerType())
    return file_of(Schema(ID), (0,), (1,), partition={PARTITION: constant}, constants={2: constant})


@check("P3", "X46", layer=Layer.SCAN)
def a_column_that_the_file_lacks_has_the_partitions_value_even_if_it_is_falsy(kit: ScanKit[Any]) -> None:
    for kind, falsy, truthy in _FALSY:
        for required in (False, True):
            schema = Schema(ID, NestedField(2, "p", kind, required=required))
            kit.compare([schema], [_hive_file(value, kind) for value in (falsy, truthy)], specs=[partitioned_by(2)])


@check("P3", "X49", layer=Layer.SCAN)
def a_null_of_the_partition_is_a_value_and_wins_over_the_default(kit: ScanKit[Any]) -> None:
    for default in (None, 7):
        schema = Schema(ID, NestedField(2, "p", IntegerType(), initial_default=default))
        with kit.built(
            [schema], [_hive_file(None), _hive_file(0)], specs=[partitioned_by(2)], format_version=3
        ) as table:
            for where in (None, "p is null", "p = 7", "p != 0"):
                table.compare(where)


@check("P8", "X47", layer=Layer.SCAN)
def a_stored_column_wins_over_the_partitions_value(kit: ScanKit[Any]) -> None:
    schema = Schema(ID, _P)
    file = file_of(schema, (0, 7), (1, None), partition={PARTITION: 5}, constants={2: 5})
    kit.compare([schema], [file], specs=[partitioned_by(2)])
    kit.compare([schema, Schema(ID, _P, _V, schema_id=1)], [file], specs=[partitioned_by(2)])


@check("P8", "X47", layer=Layer.SCAN)
def the_partitions_value_wins_if_the_caller_prefers_it(kit: ScanKit[Any]) -> None:
    schema = Schema(ID, _P)
    file = file_of(schema, (0, 7), (1, None), partition={PARTITION: 5}, constants={2: 5})
    with kit.built([schema], [file], specs=[partitioned_by(2)]) as table:
        found = table.rows(table.scan(prefer_partition_constants=True))
    expect.equal_rows(found, [{1: 0, 2: 5}, {1: 1, 2: 5}])


@check("P3", "X48", layer=Layer.SCAN)
def a_partition_column_inside_a_struct_is_filled_in_where_the_struct_is_not_null(kit: ScanKit[Any]) -> None:
    inside = [NestedField(3, "p", IntegerType()), NestedField(4, "v", IntegerType())]
    schema, stored = (Schema(ID, NestedField(2, "s", StructType(*fields))) for fields in (inside, inside[1:]))
    nine = file_of(stored, (0, {4: 1}), (1, {4: None}), partition={PARTITION: 9}, constants={3: 9})
    null = file_of(stored, (2, None), (3, {4: 2}), partition={PARTITION: None}, constants={3: None})
    with kit.built([schema], [nine, null], specs=[partitioned_by(3)]) as table:
        for where in (None, "s.p = 9", "s.p is null", "s.p = 9 or id = 2", "s.p != 9 or s.v = 1"):
            table.compare(where)


@check("P3", "P5", "X48", layer=Layer.SCAN)
def a_partition_column_need_not_be_selected_to_be_filtered(kit: ScanKit[Any]) -> None:
    files = [_hive_file(value) for value in (0, 3, None)]
    with kit.built([Schema(ID, _P)], files, specs=[partitioned_by(2)]) as table:
        for where in (None, "p = 3 or p is null", "p = 3 or id = 1"):
            table.compare(where, select=("id", "_pos"))


@check("P3", "X48", layer=Layer.SCAN)
def a_partition_column_that_was_dropped_is_in_nobodys_way(kit: ScanKit[Any]) -> None:
    old, new = Schema(ID, _P, _V), Schema(ID, _V, schema_id=1)
    stored = file_of(old, (0, 1, 10), (1, 1, None), partition={PARTITION: 1})
    lacking = file_of(Schema(ID, _V), (2, 20), (3, None), partition={PARTITION: 2})
    with kit.built([old, new], [stored, lacking], specs=[partitioned_by(2)]) as table:
        for where in (None, "v is null"):
            table.compare(where)


@check("P3", "X48", layer=Layer.SCAN)
def transforms_other_than_identity_say_nothing_about_the_column(kit: ScanKit[Any]) -> None:
    transforms: list[Transform[Any, Any]] = [BucketTransform(4), TruncateTransform(10)]
    for transform in transforms:
        file = file_of(Schema(ID), (0,), (1,), partition={PARTITION: 0})
        kit.compare([Schema(ID, _P)], [file], specs=[partitioned_by(2, transform)])


@check("P5", "X15", layer=Layer.SCAN)
def filters_see_the_partitions_value_in_a_column_that_the_file_lacks(kit: ScanKit[Any]) -> None:
    for table, questions in by_table(TRAPS_ABOUT["partitions"]):
        with kit.built(**table) as built:
            for where in (*questions, "p is null or id = 1", "p is not null and id = 1"):
                built.compare(where)


@check("P3", "P5", layer=Layer.SCAN)
def files_of_several_specs_are_read_alike(kit: ScanKit[Any]) -> None:
    schema = Schema(ID, _P, _V)
    rest = Schema(ID, _V)
    files = [
        *(file_of(rest, (0, 1), (1, None), partition={PARTITION: p}, constants={2: p}, spec_id=0) for p in (1, None)),
        *(file_of(schema, (0, 1, v), (1, None, v), partition={PARTITION + 1: v}, spec_id=1) for v in (1, 2, None)),
    ]
    with kit.built([schema], files, specs=[partitioned_by(2), partitioned_by(3, spec_id=1)]) as table:
        for where in ("p = 1", "v = 1", "p != 1", "v != 1", "p is null or v is null", "not (v > 1)"):
            table.compare(where, select=("id", "p", "v", "_spec_id"))
