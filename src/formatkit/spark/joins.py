"""Joins the two sides of a bucket in Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark.normalise import normaliser
from formatkit.spark.types import as_arrow, spark_arrow_schema
from formatkit.spark.worker import spark_batches, work_in

if TYPE_CHECKING:
    from formatkit.scan.buckets import Bucket, BucketReader

__all__ = ["How", "JoinBuckets", "joined_schema"]

How = Literal["inner", "left", "right", "full", "semi", "anti"]
_ARROW_NAMES: dict[str, Any] = {
    "inner": "inner",
    "left": "left outer",
    "right": "right outer",
    "full": "full outer",
    "semi": "left semi",
    "anti": "left anti",
}
_ONE_SIDED = ("semi", "anti")
_LEFT, _RIGHT = "formatkit left row", "formatkit right row"


def joined_schema(sides: tuple[StructType, StructType], on: tuple[str, ...], how: How) -> StructType:
    """The columns of a join: the keys, the rest of the left side, the rest of the right side."""
    if how not in _ARROW_NAMES:
        raise ConfigurationError(f"a join is one of {', '.join(_ARROW_NAMES)}, not {how!r}")
    left, right = sides
    for key in on:
        if isinstance(left[key].dataType, FloatType | DoubleType):
            raise UnsupportedError(
                f"column {key!r} is {left[key].dataType.simpleString()}, by which buckets do not join"
            )
    fields = [_nullable(left[key], when=how == "full") for key in on]
    fields += [_nullable(each, when=how in ("right", "full")) for each in left if each.name not in on]
    if how not in _ONE_SIDED:
        fields += [_nullable(each, when=how in ("left", "full")) for each in right if each.name not in on]
    names = [each.name for each in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"both sides have the columns {', '.join(twice)}; leave them out of one with select=")
    return StructType(fields)


def _nullable(column: StructField, *, when: bool) -> StructField:
    return StructField(column.name, column.dataType, column.nullable or when, column.metadata)


@dataclass
class JoinBuckets:
    """The function that `mapInArrow` runs: pairs of buckets in, joined rows out."""

    readers: tuple[BucketReader[pa.RecordBatch], BucketReader[pa.RecordBatch]]
    on: tuple[str, ...]
    how: How
    schema: StructType
    buckets: tuple[bytes, ...] = field(default=(), repr=False)

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target = as_arrow(self.schema)
        for pair in work_in(rows, self.buckets):
            sides = [_side(reader, bucket) for reader, bucket in zip(self.readers, pair, strict=True)]
            yield from _join(sides[0], sides[1], self.on, self.how, target).to_batches(max_chunksize=1 << 16)


def _side(reader: BucketReader[pa.RecordBatch], bucket: Bucket) -> pa.Table:
    with spark_batches(reader.batches(bucket), normaliser(reader.schema)) as batches:
        return pa.Table.from_batches(batches, schema=spark_arrow_schema(reader.schema))


def _join(left: pa.Table, right: pa.Table, on: tuple[str, ...], how: How, target: pa.Schema) -> pa.Table:
    """Arrow joins flat columns only, so keys and row numbers are joined, and the rest is taken by number."""
    numbered = [
        side.select(list(on)).append_column(name, pa.array(np.arange(side.num_rows)))
        for side, name in ((left, _LEFT), (right, _RIGHT))
    ]
    matched = numbered[0].join(numbered[1], keys=list(on), join_type=_ARROW_NAMES[how])
    sides = [(left, _LEFT)] if how in _ONE_SIDED else [(left, _LEFT), (right, _RIGHT)]
    columns = [matched.column(key) for key in on]
    for side, name in sides:
        rest = side.select([each for each in side.column_names if each not in on])
        columns += rest.take(matched.column(name)).columns
    # A column of a row that has no partner is null, whatever its own side says.
    return pa.Table.from_arrays(columns, schema=target)
