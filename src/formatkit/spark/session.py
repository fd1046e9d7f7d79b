"""What is asked of a Spark session, classic or Connect."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction, _wrap_function
from pyspark.util import PythonEvalType

from formatkit.spark.java import java_class

__all__ = ["is_connect", "map_each", "parallelism"]

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
    pickled = tuple(pickle.dumps(piece, protocol=pickle.HIGHEST_PROTOCOL) for piece in work)
    pieces = len(pickled)
    if is_connect(spark) or sum(map(len, pickled)) <= _MOST_BYTES_IN_FUNCTION:
        function.buckets = pickled
        rows = spark.range(0, pieces, 1, pieces)
    else:
        rows = spark.createDataFrame(
            spark.sparkContext.parallelize(list(enumerate(pickled)), pieces),
            "index bigint, bucket binary",
            verifySchema=False,
        )
    return _map_in_arrow(rows, function, schema, counters)


def _map_in_arrow(
    frame: DataFrame, function: BucketFunction, schema: StructType, counters: Counting | None
) -> DataFrame:
    if is_connect(frame.sparkSession):
        return frame.mapInArrow(function, schema)
    # The method of that name refuses to run without pandas, which nothing here uses.
    udf = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    if counters is not None and counters.is_named:
        udf._judf_placeholder = _counted(frame.sparkSession, udf, counters)  # noqa: SLF001
    column: Any = udf(*(frame[name] for name in frame.columns))
    java_frame: Any = frame._jdf  # noqa: SLF001
    return DataFrame(java_frame.mapInArrow(column._jc, False, None), frame.sparkSession)  # noqa: SLF001


def _counted(spark: SparkSession, udf: UserDefinedFunction, counters: Counting) -> Any:
    """The function as the JVM has it, but with an accumulator of its own."""
    context: Any = spark.sparkContext
    kind: Any = udf.returnType
    function = java_class(context._jvm, "org.apache.spark.sql.execution.python.UserDefinedPythonFunction")  # noqa: SLF001
    return function(
        udf._name,  # noqa: SLF001
        counters.counting(_wrap_function(context, udf.func, kind)),
        spark._jsparkSession.parseDataType(kind.json()),  # noqa: SLF001
        udf.evalType,
        udf.deterministic,
        [],
        [],
    )
