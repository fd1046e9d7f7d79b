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

from formatkit.errors import UnsupportedError
from formatkit.spark.java import construct, is_since, java_type, scala_seq
from formatkit.spark.sending import Sent

__all__ = [
    "FIRST_WITHOUT_COLUMNS",
    "BucketFunction",
    "Counting",
    "configuration_of",
    "give_work",
    "is_connect",
    "java_function",
    "map_each",
    "map_in_arrow",
    "parallelism",
    "quoted",
]

# The function travels to each executor once, and from there to each task: small plans are sent with it whole.
_MOST_BYTES_IN_FUNCTION = 1 << 20
_CONNECT_PARALLELISM = 8
FIRST_WITHOUT_COLUMNS = (4, 1)
"""The version of Spark since which `mapInArrow` may return rows that have no columns."""

# PythonEvalType.SQL_MAP_ARROW_ITER_UDF, which is not in the same module in all versions.
_MAP_IN_ARROW = 207
_FUNCTION = "org.apache.spark.sql.execution.python.UserDefinedPythonFunction"


class BucketFunction(Protocol):
    """A function for `mapInArrow` that reads buckets: the ones in its rows, or its own ones by their numbers."""

    buckets: tuple[bytes, ...]

    def __call__(self, rows: Iterator[pa.RecordBatch], /) -> Iterator[pa.RecordBatch]: ...


def is_connect(spark: SparkSession) -> bool:
    """Whether the session talks to a remote Spark, so that there is no JVM to be reached from here."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def configuration_of(spark: SparkSession) -> dict[str, str]:
    """All settings of a session."""
    if is_connect(spark) or is_since(spark, 4):
        return dict(spark.conf.getAll)
    session: Any = spark._jsparkSession  # noqa: SLF001
    pairs = session.conf().getAll().iterator()
    found = {}
    while pairs.hasNext():
        pair = pairs.next()
        found[pair._1()] = pair._2()  # noqa: SLF001 - names of Scala
    return found


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
    return map_in_arrow(rows, function, schema, counters)


def map_in_arrow(
    rows: DataFrame, function: BucketFunction, schema: StructType, counters: Counting | None = None
) -> DataFrame:
    """What a function makes of the rows of each partition.

    Args:
        rows: The rows.
        function: Gets the batches of one partition.
        schema: What it returns.
        counters: Where the JVM is to count what the function counts.

    Raises:
        UnsupportedError: It returns no columns, and this Spark would lose the rows.
    """
    spark = rows.sparkSession
    if not schema.fields and not is_since(spark, *FIRST_WITHOUT_COLUMNS):
        message = f"Spark {spark.version} forgets how many rows there are where no column is read; select one"
        raise UnsupportedError(message)
    if is_connect(spark):
        return rows.mapInArrow(Sent(function), schema)
    # The method of that name refuses to run without pandas, which nothing here uses.
    java_rows: Any = rows._jdf  # noqa: SLF001
    columns = scala_seq(spark.sparkContext._jvm, [rows[quoted(name)]._jc for name in rows.columns])  # noqa: SLF001
    mapped = java_function(spark, function, schema, java_type(spark, schema), counters).apply(columns)
    if not is_since(spark, 4):
        return DataFrame(java_rows.pythonMapInArrow(mapped.expr(), False), spark)
    return DataFrame(java_rows.mapInArrow(mapped, False, None), spark)


def quoted(name: str) -> str:
    """A name that Spark takes for a single column, whatever letters it has."""
    return "`" + name.replace("`", "``") + "`"


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
    title = getattr(function, "__name__", type(function).__name__)
    # Before 4.3 it ends with whether the function is deterministic.
    return construct(context._jvm, _FUNCTION, title, wrapped, java_schema, _MAP_IN_ARROW, True, [], [])  # noqa: SLF001
