"""Which delete files apply to which data files: the rules of the spec, one by one."""

from __future__ import annotations

import math
import pickle
import struct
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from formatkit.errors import InvalidTableError
from formatkit.scan.deletes import KeySchemas
from formatkit.scan.deletes.index import DeleteIndex
from formatkit.scan.deletes.locations import canonical_location, spellings
from formatkit.scan.manifests import Content, ManifestEntry

PATH_ID = 2147483546
LOCATION = "s3://bucket/data/a.parquet"
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "s", StructType(NestedField(4, "x", IntegerType(), required=True)), required=True),
    NestedField(5, "d", DoubleType()),
    NestedField(6, "u", UUIDType()),
    NestedField(7, "l", ListType(8, LongType())),
)
UNPARTITIONED, BY_ID, VOID = 0, 1, 2


def data(sequence_number: int = 5, location: str = LOCATION, spec_id: int = UNPARTITIONED, **facts: Any) -> Any:
    return entry(Content.DATA, location, sequence_number, spec_id, **facts)


def positions(sequence_number: int = 5, spec_id: int = UNPARTITIONED, **facts: Any) -> Any:
    return entry(Content.POSITION_DELETES, "deletes.parquet", sequence_number, spec_id, **facts)


def vector(sequence_number: int = 5, spec_id: int = UNPARTITIONED, **facts: Any) -> Any:
    place = {"referenced_data_file": LOCATION, "content_offset": 4, "content_size": 40, "file_format": "puffin"}
    return entry(Content.POSITION_DELETES, "deletes.puffin", sequence_number, spec_id, **{**place, **facts})


def equality(sequence_number: int = 6, spec_id: int = UNPARTITIONED, ids: tuple[int, ...] = (1,), **facts: Any) -> Any:
    return entry(Content.EQUALITY_DELETES, "keys.parquet", sequence_number, spec_id, equality_ids=ids, **facts)


def entry(content: Content, location: str, sequence_number: int, spec_id: int, **facts: Any) -> ManifestEntry:
    named = {
        "partition": {},
        "file_format": "parquet",
        "row_count": 10,
        "size_bytes": 100,
        "split_offsets": (),
        **facts,
    }
    return ManifestEntry(content=content, location=location, sequence_number=sequence_number, spec_id=spec_id, **named)


def index(*entries: ManifestEntry) -> DeleteIndex:
    return DeleteIndex(entries, KeySchemas([SCHEMA]), {UNPARTITIONED, VOID})


def applying(target: ManifestEntry, *entries: ManifestEntry) -> list[str]:
    return [each.kind for each in index(*entries).applying_to(target)]


@pytest.mark.parametrize(
    ("delete", "applies"),
    [
        (positions(4), False),
        (positions(5), True),
        (positions(6), True),
        (positions(4, referenced_data_file=LOCATION), False),
        (positions(5, referenced_data_file=LOCATION), True),
        (vector(5), True),
        (vector(6), True),
        (equality(4), False),
        (equality(5), False),
        (equality(6), True),
    ],
)
def test_deletes_apply_by_their_sequence_number(delete: ManifestEntry, applies: bool) -> None:
    assert bool(applying(data(5), delete)) is applies


@pytest.mark.parametrize("delete", [positions, equality])
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((BY_ID, {1000: 1}), (BY_ID, {1000: 1}), True),
        ((BY_ID, {1000: 1}), (BY_ID, {1000: 2}), False),
        ((BY_ID, {1000: None}), (BY_ID, {1000: None}), True),
        ((BY_ID, {1000: None}), (BY_ID, {1000: 0}), False),
        ((BY_ID, {1000: 1}), (3, {1000: 1}), False),
        ((BY_ID, {1000: 1, 1001: "a"}), (BY_ID, {1001: "a", 1000: 1}), True),
        ((BY_ID, {1000: math.nan}), (BY_ID, {1000: -math.nan}), True),
        ((BY_ID, {1000: 0.0}), (BY_ID, {1000: -0.0}), False),
    ],
)
def test_deletes_stay_inside_their_partition(delete: Any, one: Any, other: Any, same: bool) -> None:
    target = data(5, spec_id=other[0], partition=other[1])
    assert bool(applying(target, delete(7, spec_id=one[0], partition=one[1]))) is same


@pytest.mark.parametrize("spec_id", [UNPARTITIONED, VOID])
def test_equality_deletes_without_a_partition_apply_everywhere(spec_id: int) -> None:
    delete = equality(6, spec_id=spec_id, partition={1000: None} if spec_id == VOID else {})
    assert applying(data(5, spec_id=BY_ID, partition={1000: 1}), delete) == ["equality deletes"]
    assert applying(data(5), delete) == ["equality deletes"]
    assert index(delete).applying_to(data(5))[0].scope == ()


def test_position_deletes_without_a_partition_do_not() -> None:
    assert applying(data(5, spec_id=BY_ID, partition={1000: 1}), positions(6)) == []


def test_a_deletion_vector_takes_the_place_of_position_deletes_and_of_nothing_else() -> None:
    deletes = [positions(5), positions(6, referenced_data_file=LOCATION), equality(6), vector(6)]
    assert applying(data(5), *deletes) == ["deletion vectors", "equality deletes"]
    assert applying(data(5, location="other"), *deletes) == ["position deletes", "equality deletes"]


@pytest.mark.parametrize(
    ("target", "deletes", "message"),
    [
        (data(5), [vector(4)], r"sequence number 4, which is below 5"),
        (data(5), [vector(5, spec_id=BY_ID, partition={1000: 1})], r"\(1000=1\) of spec 1 and the other of \(\) of"),
        (data(5), [vector(5, spec_id=3)], "of spec 3"),
        (data(5), [positions(5, spec_id=3, referenced_data_file=LOCATION)], "of spec 3"),
        (data(5), [vector(5), vector(6)], "2 deletion vectors"),
    ],
)
def test_metadata_that_contradicts_itself_is_refused(
    target: ManifestEntry, deletes: list[ManifestEntry], message: str
) -> None:
    with pytest.raises(InvalidTableError, match=message) as caught:
        applying(target, *deletes)
    assert vars(caught.value)["location"] == LOCATION
    assert applying(data(5, location="other"), *deletes) == []


@pytest.mark.parametrize("missing", ["referenced_data_file", "content_offset", "content_size"])
def test_a_deletion_vector_must_say_where_it_is_and_whose(missing: str) -> None:
    incomplete: dict[str, Any] = {missing: None}
    with pytest.raises(InvalidTableError, match=r"deletes\.puffin"):
        index(vector(5, **incomplete))


def bounded(lower: str, upper: str) -> ManifestEntry:
    return positions(5, lower_bounds={PATH_ID: lower.encode()}, upper_bounds={PATH_ID: upper.encode()})  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("location", "delete", "applies"),
    [
        (LOCATION, bounded(LOCATION, LOCATION), True),
        (LOCATION, bounded("s3://bucket/data/b", "s3://bucket/data/c"), False),
        (LOCATION, bounded("s3://bucket/data/", "s3://bucket/data/b"), True),
        ("s3a://bucket/data/a.parquet", bounded(LOCATION, LOCATION), True),
        (LOCATION, bounded("s3n://bucket/data/a.parquet", "s3n://bucket/data/a.parquet"), True),
        ("file:/x/a", bounded("/x/a", "/x/a"), True),
        ("/x/a", bounded("file:///x/a", "file:///x/a"), True),
        ("file:///x/a", bounded("file:/x/", "file:/x/b"), True),
        ("file:///x/c", bounded("file:/x/", "file:/x/b"), False),
        # Cut at any place, and not rounded up.
        (LOCATION, bounded("s3://bucket/data", "s3://bucket/data"), True),
        (LOCATION, bounded("s3://bucket/dat", "s3://bucket/data"), True),
        (LOCATION, bounded("s", "t"), True),
        ("file:///x/a", bounded("fi", "fj"), True),
        (LOCATION, bounded("s3:", "s3:"), True),
        # Elsewhere, which only the rows can tell.
        ("/x/a", bounded("s3://bucket/a", "s3://bucket/b"), True),
        ("gs://bucket/ü/a", bounded("gs://bucket/ü/a", "gs://bucket/ü/a"), True),
    ],
)
def test_bounds_of_locations_rule_out_position_deletes(location: str, delete: ManifestEntry, applies: bool) -> None:
    assert bool(applying(data(5, location=location), delete)) is applies


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/x/a b%20ü", "file:///x/a b%20ü"),
        ("/x/a", "file:///x/a"),
        ("file://localhost/x/a", "/x/a"),
        ("FILE:///x/a", "/x/a"),
        ("s3a://b/k", "s3n://b/k"),
        ("s3://b//k", "s3a://b//k"),
    ],
)
def test_one_file_may_be_spelled_in_several_ways(one: str, other: str) -> None:
    assert canonical_location(one) == canonical_location(other)
    assert {canonical_location(each) for each in spellings(one)} == {canonical_location(one)}
    assert applying(data(5, location=one), vector(5, referenced_data_file=other)) == ["deletion vectors"]
    assert applying(data(5, location=one), positions(5, referenced_data_file=other)) == ["position deletes"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("/x/a", "/X/a"), ("s3://b/k", "gs://b/k"), ("file://host/x", "/x"), ("/x/a%20b", "/x/a b"), ("s3://b/k", "/b/k")],
)
def test_other_locations_stay_different(one: str, other: str) -> None:
    assert canonical_location(one) != canonical_location(other)


def packed(type_: IcebergType, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(type_, DoubleType):
        return struct.pack("<d", value)
    return value if isinstance(value, bytes) else struct.pack("<q", value)


def metrics(column: int, lower: Any = None, upper: Any = None, nulls: int | None = 0, rows: int = 10) -> dict[str, Any]:
    type_ = SCHEMA.find_type(column)
    bounds = {} if lower is None else {"lower_bounds": {column: packed(type_, lower)}}
    bounds |= {} if upper is None else {"upper_bounds": {column: packed(type_, upper)}}
    counts = {} if nulls is None else {"value_counts": {column: rows}, "null_counts": {column: nulls}}
    return {"row_count": rows, **bounds, **counts}


@pytest.mark.parametrize(
    ("column", "keys", "stored", "applies"),
    [
        (1, metrics(1, 1, 5), metrics(1, 5, 9), True),
        (1, metrics(1, 1, 5), metrics(1, 6, 9), False),
        (1, metrics(1, 6, 9), metrics(1, 1, 5), False),
        (1, metrics(1, 1, 5, nulls=1), metrics(1, 6, 9), False),
        (1, metrics(1, 1, 5, nulls=1), metrics(1, 6, 9, nulls=1), True),
        (1, metrics(1, 1, 5, nulls=None), metrics(1, 6, 9, nulls=None), True),
        (1, metrics(1, 1, 5), metrics(1, 6, 9, nulls=None), False),
        (1, metrics(1, nulls=10), metrics(1, 6, 9), False),
        (1, metrics(1, nulls=10), metrics(1, 6, 9, nulls=1), True),
        (1, metrics(1, 6, 9), metrics(1, nulls=10), False),
        (1, metrics(1), metrics(1, 6, 9), True),
        (1, metrics(1, 5, 1), metrics(1, 6, 9), True),
        (2, metrics(2, "a", "b"), metrics(2, "c", "d"), False),
        (2, metrics(2, "a", "bc"), metrics(2, "bcd", "d"), True),
        (5, metrics(5, 1.0, 2.0), metrics(5, 3.0, 4.0), True),
        (6, metrics(6, b"\x80" * 16, b"\x81" * 16), metrics(6, b"\x01" * 16, b"\x02" * 16), True),
    ],
)
def test_metrics_rule_out_equality_deletes(column: int, keys: Any, stored: Any, applies: bool) -> None:
    assert bool(applying(data(5, **stored), equality(6, ids=(column,), **keys))) is applies


def test_counts_of_a_column_inside_a_struct_are_believed_only_if_they_count_every_row() -> None:
    inside: dict[str, Any] = {"value_counts": {4: 3}, "null_counts": {4: 0}}
    only_null: dict[str, Any] = {"value_counts": {4: 10}, "null_counts": {4: 10}}
    assert applying(data(5, **inside), equality(6, ids=(4,), **only_null)) == ["equality deletes"]


def test_ids_come_in_one_order_whatever_the_manifest_says() -> None:
    (found,) = index(equality(6, ids=(4, 1, 4))).applying_to(data(5))
    assert found.equality_ids == (1, 4)
    assert pickle.loads(pickle.dumps(found)) == found


def test_columns_of_keys_may_be_null_and_come_with_the_structs_that_they_are_in() -> None:
    schema = KeySchemas([SCHEMA]).of((1, 4))
    assert schema.as_struct() == StructType(
        NestedField(1, "id", LongType()), NestedField(3, "s", StructType(NestedField(4, "x", IntegerType())))
    )


def test_a_column_that_was_dropped_is_as_the_table_last_knew_it() -> None:
    older = [Schema(NestedField(9, "gone", LongType())), Schema(NestedField(9, "gone", IntegerType()))]
    assert KeySchemas([SCHEMA, *older]).of((9,)).find_type(9) == LongType()


@pytest.mark.parametrize(("ids", "message"), [((9,), "field 9"), ((3,), "'s'"), ((7,), "'l'"), ((8,), "'element'")])
def test_columns_that_cannot_be_compared_are_refused(ids: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidTableError, match=message):
        index(equality(6, ids=ids))
