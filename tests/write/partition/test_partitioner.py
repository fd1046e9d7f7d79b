"""Batches are split by partition: each row once, in its order, where its values belong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType, TimestampType

from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract.values import internal_value
from formatkit.write.partition import Partitioner

SCHEMA = Schema(
    NestedField(1, "row", LongType()),
    NestedField(2, "number", LongType()),
    NestedField(3, "text", StringType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "real", DoubleType()),
    NestedField(6, "inner", StructType(NestedField(7, "text", StringType()))),
)
FIELDS: list[tuple[int, Transform[Any, Any]]] = [
    (2, BucketTransform(3)),
    (2, TruncateTransform(10)),
    (3, IdentityTransform()),
    (3, TruncateTransform(1)),
    (4, DayTransform()),
    (4, MonthTransform()),
    (5, IdentityTransform()),
    (5, VoidTransform()),
    (7, BucketTransform(2)),
]
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-30, 30),
        st.none() | st.text("abé", max_size=3),
        st.none() | st.integers(-3 * 86_400_000_000, 3 * 86_400_000_000),
        st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), -float("nan")]),
        st.none() | st.fixed_dictionaries({"text": st.none() | st.sampled_from(["x", "y", "z"])}),
    ),
    min_size=1,
    max_size=60,
)


def partition_spec(fields: list[tuple[int, Transform[Any, Any]]]) -> PartitionSpec:
    return PartitionSpec(
        *(PartitionField(source, 1000 + i, transform, f"p{i}") for i, (source, transform) in enumerate(fields))
    )


def expected(row: dict[str, Any], source: int, transform: Transform[Any, Any]) -> Any:
    value = (row["inner"] or {"text": None})["text"] if source == 7 else row[SCHEMA.fields[source - 1].name]
    kind = SCHEMA.find_type(source)
    result: Any = transform.transform(kind)(internal_value(kind, value))
    return repr(abs(result)) if result != result else repr(result)


@given(ROWS, st.lists(st.sampled_from(FIELDS), unique=True, max_size=4))
def test_each_row_is_in_its_partition_once_and_in_order(
    values: list[tuple[Any, ...]], fields: list[tuple[int, Transform[Any, Any]]]
) -> None:
    names = [field.name for field in SCHEMA.fields]
    rows = [dict(zip(names, (number, *row), strict=True)) for number, row in enumerate(values)]
    split = Partitioner(partition_spec(fields), SCHEMA).split(pa.RecordBatch.from_pylist(rows, arrow_schema(SCHEMA)))
    assert len({partition.key for partition, _ in split.parts}) == len(split.parts)
    found = []
    for partition, part in split.parts:
        numbers: list[Any] = part["row"].to_pylist()
        assert numbers == sorted(numbers)
        found += numbers
        for number in numbers:
            wanted = [expected(rows[number], source, transform) for source, transform in fields]
            assert [repr(partition.values[i]) for i in range(len(fields))] == wanted
    assert sorted(found) == list(range(len(rows)))


@pytest.mark.parametrize(
    ("numbers", "clustered"),
    [([5, 5, 2, 2, 2, 9], True), ([1, 1, 1], True), ([1, 2, 1], False), ([7], True), ([3, 2, 1], True)],
)
def test_clustered_rows_are_recognised(numbers: list[int], clustered: bool) -> None:
    schema = Schema(NestedField(2, "number", LongType()))
    split = Partitioner(partition_spec([(2, IdentityTransform())]), schema).split(pa.record_batch({"number": numbers}))
    assert split.clustered == clustered
    if clustered:
        assert [partition.values[0] for partition, _ in split.parts] == list(dict.fromkeys(numbers))


def test_more_partitions_than_counting_sorts_are_told_apart() -> None:
    schema = Schema(NestedField(2, "number", LongType()), NestedField(3, "other", LongType()))
    partitioner = Partitioner(partition_spec([(2, IdentityTransform()), (3, IdentityTransform())]), schema)
    numbers = np.random.default_rng(0).permutation(np.repeat(np.arange(40_000), 2))
    split = partitioner.split(pa.record_batch({"number": numbers, "other": -numbers}))
    assert len(split.parts) == 40_000
    assert all(part.num_rows == 2 for _, part in split.parts)
    assert all(partition.values[0] == -partition.values[1] for partition, _ in split.parts)
