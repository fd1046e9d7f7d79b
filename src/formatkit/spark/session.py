"""What is asked of a Spark session, classic or Connect."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function
from pyspark.util import PythonEvalType

from formatkit.spark.java import java_class, java_type, scala_seq
from formatkit.spark.sending import Sent

__all__ = ["BucketFunction", "Counting", "give_work", "is_connect", "java_function", "map_each", "parallelism"]

# The function travels to each executor once, and from there to each task: small plans are sent with it whole.
_MOST_BYTES_IN_FUNCTION = 1 << 20
_CONNECT_PARALLELISM = 8


class BucketFunction(Protocol):
    """A function for `mapInArrow` that reads buckets: the ones in its rows, or its own ones by their numbers."""

    buckets: tuple[bytes, ...]

    def __call__(self, rows: Iterator[pa.RecordBatch], /) -> Iterator[pa.RecordBatch]: ...


def is_connect(spark: SparkSession) -> bool:
    """Whether the session talks to a remote Spark, so that there is no JVM to be reached from here."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def parallelism(spark: SparkSession) -> int:
    """How many tasks run side by side, as far as the session tells."""
    return _CONNECT_PARALLELISM if is_connect(spark) else spark.sparkContext.defaultParallelism


class Counting(Protocol):
    """Where the JVM is to count what a function counts."""

    @property
    def is_named(self) -> bool: ...

    def counting(self, function: Any, /) -> Any: ...


def map_each(
    spark: SparkSession,
    work: Sequence[Any],
    function: BucketFunction,
    schema: StructType,
    counters: Counting | None = None,
) -> DataFrame:
    """Run a function over each piece of work in a partition of its own: piece i in partition i, with no shuffle.

    Args:
        spark: The session.
        work: What the partitions are to do; it is pickled.
        function: Gets its piece of work by number or by value.
        schema: What it returns.
        counters: Where the JVM is to count what the function counts.
    """
    rows = give_work(spark, work, function)
    if is_connect(spark):
        return rows.mapInArrow(Sent(function), schema)
    # The method of that name refuses to run without pandas, which nothing here uses.
    java_schema = java_type(spark, schema)
    columns = scala_seq(spark.sparkContext._jvm, [rows[name]._jc for name in rows.columns])  # noqa: SLF001
    mapped = java_function(spark, function, schema, java_schema, counters).apply(columns)
    java_rows: Any = rows._jdf  # noqa: SLF001
    return DataFrame(java_rows.mapInArrow(mapped, False, None), spark)


def give_work(spark: SparkSession, work: Sequence[Any], function: BucketFunction) -> DataFrame:
    """Rows that tell a function its work: piece i in partition i.

    Args:
        spark: The session.
        work: What the partitions are to do; it is pickled.
        function: What does it. If the work is small, it gets all of it, and the rows have numbers only.
    """
    pickled = tuple(pickle.dumps(piece, protocol=pickle.HIGHEST_PROTOCOL) for piece in work)
    if is_connect(spark) or sum(map(len, pickled)) <= _MOST_BYTES_IN_FUNCTION:
        function.buckets = pickled
        return _numbers(spark, len(pickled))
    return spark.createDataFrame(
        spark.sparkContext.parallelize(list(enumerate(pickled)), len(pickled)),
        "index bigint, bucket binary",
        verifySchema=False,
    )


@lru_cache(maxsize=64)
def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """One number a partition. Spark takes some milliseconds to plan them, which is done once."""
    return spark.range(0, count, 1, count)


def java_function(
    spark: SparkSession, function: BucketFunction, schema: StructType, java_schema: Any, counters: Counting | None
) -> Any:
    """A function for `mapInArrow` as the JVM has it.

    Args:
        spark: A classic session.
        function: What workers run.
        schema: What it returns.
        java_schema: The same, as the JVM has it.
        counters: Where the JVM is to count what the function counts.
    """
    context: Any = spark.sparkContext
    wrapped = _wrap_function(context, Sent(function), schema)
    if counters is not None and counters.is_named:
        wrapped = counters.counting(wrapped)
    made = java_class(context._jvm, "org.apache.spark.sql.execution.python.UserDefinedPythonFunction")  # noqa: SLF001
    title = getattr(function, "__name__", type(function).__name__)
    return made(title, wrapped, java_schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF, True, [], [])
