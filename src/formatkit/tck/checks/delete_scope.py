"""Which deletes apply to which files: by age, by partition, and by what stands in for what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DoubleType, IntegerType, NestedField, StringType

from formatkit.contract import Capability
from formatkit.errors import FormatkitError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.checks.equality_deletes import equal
from formatkit.tck.deletions import Deletes, DeletionVector, PositionDeletes
from formatkit.tck.histories import histories
from formatkit.tck.lives import deletes_of_any_kind, files_of_any_age
from formatkit.tck.naive import File
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.scanned import ScannedTable
from formatkit.tck.strategies import predicates
from formatkit.tck.table_files import ID, PARTITION, file_of, partitioned_by

_P, _V = NestedField(2, "p", IntegerType()), NestedField(3, "v", StringType())
_TABLE = Schema(ID, _P, _V)
_BY_ID: Any = {
    "layer": Layer.SCAN,
    "when": Capability.FIELD_IDS,
    "twin": "a_format_without_ids_is_read_through_a_mapping_only",
}


def _file(number: int, part: int | None = None, **facts: Any) -> File:
    """Four rows, of which every delete here deletes the first two."""
    return file_of(_TABLE, *((10 * number + at, part, "gone" if at < 2 else "here") for at in range(4)), **facts)


def _deletes(files: int, kinds: str, **facts: Any) -> Iterator[Deletes]:
    """Deletes of the given kinds for all files at once."""
    if "equality" in kinds:
        yield equal((_V,), ["gone"], **facts)
    if "position" in kinds:
        yield PositionDeletes(rows=[(number, at) for number in range(files) for at in range(2)], **facts)
    if "vector" in kinds:
        yield from (DeletionVector(file=number, positions=[0, 1], **facts) for number in range(files))


@check("P10", "X72", layer=Layer.SCAN)
def deletes_by_equality_concern_older_files_only(kit: ScanKit[Any]) -> None:
    files = [_file(number, sequence_number=number) for number in (4, 5, 6)]
    with kit.built([_TABLE], files, deletes=[*_deletes(3, "equality", sequence_number=5)]) as table:
        table.compare()
        table.compare(select=("id", "_deleted"))


@check("P10", "X72", layer=Layer.SCAN)
def deletes_by_position_concern_files_of_their_own_age_too(kit: ScanKit[Any]) -> None:
    files = [_file(number, sequence_number=number) for number in (4, 5, 6)]
    with kit.built([_TABLE], files, deletes=[*_deletes(3, "position", sequence_number=5)]) as table:
        table.compare()


@check("P10", "X72", layer=Layer.SCAN)
def deletion_vectors_concern_files_of_their_own_age_too(kit: ScanKit[Any]) -> None:
    files = [_file(number, sequence_number=number) for number in (4, 5)]
    with kit.built([_TABLE], files, deletes=[*_deletes(2, "vector", sequence_number=5)], format_version=3) as table:
        table.compare()


@check("P10", "X72", layer=Layer.SCAN)
def deletes_stay_inside_of_their_partition(kit: ScanKit[Any]) -> None:
    files = [_file(number, part, partition={PARTITION: part}) for number, part in enumerate((0, 1, None, 0))]
    for kind in ("equality", "position"):
        for part in (0, None):
            deletes = _deletes(4, kind, partition={PARTITION: part})
            with kit.built([_TABLE], files, deletes=[*deletes], specs=[partitioned_by(2)]) as table:
                table.compare()


@check("P10", "X72", layer=Layer.SCAN)
def the_same_values_under_another_spec_are_another_partition(kit: ScanKit[Any]) -> None:
    specs = [partitioned_by(2), partitioned_by(2, BucketTransform(16), spec_id=1)]
    files = [
        _file(0, 3, partition={PARTITION: 3}),
        _file(1, 3, partition={PARTITION: 3}),
        _file(2, 3, partition={PARTITION + 1: 3}, spec_id=1),
    ]
    for kind in ("equality", "position"):
        for spec_id in (0, 1):
            deletes = _deletes(3, kind, partition={PARTITION + spec_id: 3}, spec_id=spec_id)
            with kit.built([_TABLE], files, deletes=[*deletes], specs=specs) as table:
                table.compare()


@check("P10", "X72", layer=Layer.SCAN)
def deletes_by_equality_without_a_partition_concern_all(kit: ScanKit[Any]) -> None:
    """A spec of which all fields were removed is none either."""
    void = PartitionSpec(PartitionField(2, PARTITION, VoidTransform(), "part_0"), spec_id=2)
    files = [
        _file(0, 3, partition={PARTITION: 3}),
        _file(1, None, partition={PARTITION: None}),
        _file(2, 4, partition={PARTITION: 4}, sequence_number=2),
        _file(3, 3, spec_id=1),
    ]
    specs = [partitioned_by(2), PartitionSpec(spec_id=1), void]
    for spec_id in (1, 2):
        with kit.built([_TABLE], files, deletes=[*_deletes(4, "equality", spec_id=spec_id)], specs=specs) as table:
            table.compare()


@check("P10", "X72", layer=Layer.SCAN)
def deletes_by_position_without_a_partition_concern_no_other(kit: ScanKit[Any]) -> None:
    files = [_file(0, 3, partition={PARTITION: 3}), _file(1, 3, spec_id=1)]
    specs = [partitioned_by(2), PartitionSpec(spec_id=1)]
    with kit.built([_TABLE], files, deletes=[*_deletes(2, "position", spec_id=1)], specs=specs) as table:
        table.compare()


@check("P10", "X72", layer=Layer.SCAN)
def partitions_of_several_fields_are_equal_in_all_of_them(kit: ScanKit[Any]) -> None:
    fields = [PartitionField(source, PARTITION + source, IdentityTransform(), f"by {source}") for source in (2, 3)]
    schema = Schema(ID, _P, _V)
    values = [(1, "x"), (1, None), (None, "x"), (2, "x")]
    files = [
        file_of(schema, *((10 * number + at, p, v) for at in range(3)), partition={PARTITION + 2: p, PARTITION + 3: v})
        for number, (p, v) in enumerate(values)
    ]
    for p, v in values[:2]:
        delete = PositionDeletes(rows=[(n, 1) for n in range(4)], partition={PARTITION + 2: p, PARTITION + 3: v})
        with kit.built([schema], files, deletes=[delete], specs=[PartitionSpec(*fields)]) as table:
            table.compare()


@check("P10", "X72", layer=Layer.SCAN)
def partitions_of_numbers_tell_zeros_apart_and_not_nans(kit: ScanKit[Any]) -> None:
    """Each partition deletes a text of its own, which all files hold."""
    schema = Schema(ID, NestedField(2, "p", DoubleType()), _V)
    values = (0.0, -0.0, math.nan, 1.5)
    files = [
        file_of(schema, *((10 * n + at, value, f"of {at}") for at in range(4)), partition={PARTITION: value})
        for n, value in enumerate(values)
    ]
    deletes = [equal((_V,), [f"of {n}"], partition={PARTITION: value}) for n, value in enumerate(values)]
    with kit.built([schema], files, deletes=deletes, specs=[partitioned_by(2)]) as table:
        table.compare(select=("id",))


@check("P10", "X78", layer=Layer.SCAN)
def a_deletion_vector_stands_in_for_the_position_delete_files_of_its_data_file(kit: ScanKit[Any]) -> None:
    files = [_file(0), _file(1)]
    deletes = [
        PositionDeletes(rows=[(0, 3), (1, 3)]),
        PositionDeletes(rows=[(0, 2)], only=0),
        DeletionVector(file=0, positions=[0], sequence_number=3),
        equal((ID,), [1]),
    ]
    with kit.built([_TABLE], files, deletes=deletes, format_version=3) as table:
        table.compare()
        table.compare(select=("id", "_deleted"))


@check("P10", "X78", layer=Layer.SCAN)
def a_deletion_vector_of_another_partition_is_refused(kit: ScanKit[Any]) -> None:
    file = _file(0, 1, partition={PARTITION: 1})
    specs = [partitioned_by(2), partitioned_by(2, BucketTransform(4), spec_id=1)]
    wrong: list[dict[str, Any]] = [
        {"partition": {PARTITION: 2}},
        {"partition": {PARTITION: None}},
        {"partition": {PARTITION + 1: 1}, "spec_id": 1},
    ]
    for facts in wrong:
        vector = DeletionVector(file=0, positions=[0], **facts)
        with kit.built([_TABLE], [file], deletes=[vector], specs=specs, format_version=3) as table:
            _refused(table, f"reading past a deletion vector of {facts}")


@check("P10", "X78", layer=Layer.SCAN)
def a_deletion_vector_that_is_older_than_its_data_file_is_refused(kit: ScanKit[Any]) -> None:
    file = replace(_file(0), sequence_number=5)
    vector = DeletionVector(file=0, positions=[0], sequence_number=4)
    with kit.built([_TABLE], [file], deletes=[vector], format_version=3) as table:
        _refused(table, "reading past a deletion vector that is older than its data file")


@check("P5", "P6", "P10", **_BY_ID)
def any_question_to_a_table_with_any_deletes_is_answered_rightly(kit: ScanKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schemas = data.draw(histories(nanoseconds=kit.format.nanoseconds), label="schemas")
        drawn = data.draw(files_of_any_age(schemas, kit.format.plugin.capabilities), label="files")
        ages = data.draw(st.lists(st.integers(1, 3), min_size=3, max_size=3), label="ages")
        files = [replace(file, sequence_number=age) for file, age in zip(drawn, ages, strict=False)]
        deletes = data.draw(deletes_of_any_kind(schemas, files, kit.format.plugin.capabilities), label="deletes")
        where = data.draw(st.none() | predicates(schemas[-1]), label="question")
        select = data.draw(st.sampled_from([None, ("_pos", "_deleted")]), label="columns")
        with kit.built(schemas, files, deletes=deletes, format_version=3) as table:
            table.compare(where, select, batch_rows=4)


def _refused(table: ScannedTable[Any], when: str) -> None:
    with expect.raises(FormatkitError, when=when, naming=table.files[0].location):
        table.rows(table.scan())
