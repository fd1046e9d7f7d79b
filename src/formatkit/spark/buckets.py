"""Work inside of buckets, before any row reaches Spark: `map_buckets`, and joins of tables that are bucketed alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.scan import Scan
from formatkit.spark.conform import Batches, MapBuckets, Result
from formatkit.spark.frames import bucket_count, executor_reader
from formatkit.spark.joins import How, JoinBuckets, joined_schema
from formatkit.spark.session import map_each
from formatkit.spark.types import spark_schema

if TYPE_CHECKING:
    from formatkit.scan.buckets import Bucket, BucketReader, Buckets

__all__ = ["CoBuckets", "co_bucketed", "map_buckets"]


def map_buckets(
    spark: SparkSession,
    scan: Scan,
    function: Callable[[Batches], Result],
    schema: StructType | Schema | str,
    *,
    buckets: int | None = None,
    partitioned_by: str | Sequence[str] | None = None,
) -> DataFrame:
    """Run a function over the Arrow batches of each bucket on the executors, and return what it makes of them.

    What it leaves out or sums up never crosses from Python to Spark, which is much of what reading costs. Columns are
    matched by name and cast to `schema`.

    Args:
        spark: A session, classic or Connect.
        scan: What to read. Its batches have the form of `Scan.arrow_schema`.
        function: From the batches of one bucket to a table, a batch, or batches.
        schema: What it returns: as Spark, as Iceberg or as a text like ``"key string, total bigint"`` has it.
        buckets: The most Spark partitions; as in `read`.
        partitioned_by: Columns that the table is partitioned by (identity): rows that agree in them are in one bucket.

    Raises:
        UnsupportedError: The scan has a limit, or the table is not partitioned so; the message says why.
    """
    _check_whole(scan)
    target = _struct(schema)
    count = buckets or bucket_count(spark, scan)
    made = scan.buckets(count) if partitioned_by is None else _hashed(scan, _names(partitioned_by), count)
    mapped = MapBuckets((executor_reader(scan),), function, target)
    return map_each(spark, [(bucket,) for bucket in made], mapped, target)


def co_bucketed(spark: SparkSession, left: Scan, right: Scan, on: str | Sequence[str], buckets: int) -> CoBuckets:
    """Two scans in buckets by the same columns, so that rows that agree in them are in buckets of the same number.

    Args:
        spark: A session, classic or Connect.
        left: A scan of a table that is partitioned by the columns (identity).
        right: Another one.
        on: The columns, which both scans have under these names, with the same types.
        buckets: How many buckets.

    Raises:
        UnsupportedError: A scan has a limit, or its table is not partitioned so; the message says why.
    """
    _check_whole(left)
    _check_whole(right)
    keys = _names(on)
    for key in keys:
        kinds = {str(scan.schema.find_type(key)) for scan in (left, right)}
        if len(kinds) > 1:
            raise UnsupportedError(f"column {key!r} is {' and '.join(sorted(kinds))}, whose hashes differ in Spark")
    return CoBuckets(
        spark=spark,
        scans=(left, right),
        on=keys,
        buckets=(_hashed(left, keys, buckets), _hashed(right, keys, buckets)),
    )


def _check_whole(scan: Scan) -> None:
    if scan.limit is not None:
        message = f"the limit of {scan.limit} rows would be one of each bucket; leave it out, or use dataframe()"
        raise UnsupportedError(message)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _hashed(scan: Scan, keys: tuple[str, ...], count: int) -> Buckets:
    made = scan.buckets(count, by=keys)
    if not made.partitioning.is_hash:
        raise UnsupportedError(f"the rows cannot be put into buckets by {', '.join(keys)}: {made.partitioning}")
    return made


@dataclass(frozen=True, kw_only=True)
class CoBuckets:
    """Two scans in buckets of the same keys; made by `co_bucketed`."""

    spark: SparkSession
    scans: tuple[Scan, Scan]
    on: tuple[str, ...]
    buckets: tuple[Buckets, Buckets]

    def map(self, function: Callable[[Batches, Batches], Result], schema: StructType | Schema | str) -> DataFrame:
        """Run a function over the batches of both sides of each bucket; otherwise like `map_buckets`."""
        target = _struct(schema)
        return map_each(self.spark, self._pairs, MapBuckets(self._readers, function, target), target)

    def join(self, how: How = "inner") -> DataFrame:
        """Join the two sides, each pair of buckets in the memory of its executor.

        As in Spark, nulls equal nothing, and the keys come once, before the other columns.

        Args:
            how: ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"semi"`` or ``"anti"``.
        """
        schemas = (spark_schema(self.scans[0].schema), spark_schema(self.scans[1].schema))
        target = joined_schema(schemas, self.on, how)
        return map_each(self.spark, self._pairs, JoinBuckets(self._readers, self.on, how, target), target)

    @property
    def _pairs(self) -> list[tuple[Bucket, Bucket]]:
        return list(zip(*self.buckets, strict=True))

    @property
    def _readers(self) -> tuple[BucketReader[pa.RecordBatch], BucketReader[pa.RecordBatch]]:
        return executor_reader(self.scans[0]), executor_reader(self.scans[1])


def _struct(schema: StructType | Schema | str) -> StructType:
    match schema:
        case str():
            # PySpark 3.5 has the other one only.
            parse = getattr(StructType, "fromDDL", _parse_datatype_string)
            return cast("StructType", parse(schema))
        case Schema():
            return spark_schema(schema)
        case StructType():
            return schema
    raise ConfigurationError(f"a schema is text, a StructType or a pyiceberg Schema, not {type(schema).__name__}")
