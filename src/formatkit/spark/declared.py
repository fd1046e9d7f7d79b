"""Tells Spark's optimizer what is known about a DataFrame: how its rows are partitioned and sorted, and how many."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from formatkit.scan.buckets import Buckets, UnknownPartitioning
from formatkit.spark.java import construct, java_class, scala_none, scala_object, scala_seq
from formatkit.spark.versions import obstacle

__all__ = ["declare", "java_ordering", "java_partitioning", "row_bytes"]

_BYTES_A_NUMBER = 8


def declare(frame: DataFrame, buckets: Buckets, *, name: str = "formatkit") -> DataFrame:
    """The same rows, with what the buckets say about them.

    A group-by, a join or a window on the columns of hash partitioning then needs no Exchange, sorting by the order of
    the buckets no Sort, and small tables are broadcast. Filters and selections made later on do not reach the scan.

    Args:
        frame: What reads the buckets, bucket i in partition i.
        buckets: The buckets.
        name: What Spark's plans call it.

    Returns:
        The DataFrame itself if this Spark cannot be told.
    """
    spark = frame.sparkSession
    if obstacle(spark) is not None:
        return frame
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    session = spark._jsparkSession  # noqa: SLF001
    execution = frame._jdf.queryExecution()  # noqa: SLF001
    output = execution.analyzed().output()
    none = scala_none(jvm)
    relation = construct(
        jvm,
        "org.apache.spark.sql.execution.LogicalRDD",
        output,
        execution.toRdd().setName(f"{name} buckets:[{len(buckets)}] {buckets.partitioning}"),
        java_partitioning(jvm, buckets, output),
        java_ordering(jvm, buckets, output),
        False,
        none,
        session,
        _statistics(spark, buckets, row_bytes(execution.analyzed().schema())),
        none,
        False,
    )
    return DataFrame(scala_object(jvm, "org.apache.spark.sql.classic.Dataset").ofRows(session, relation), spark)


def java_partitioning(jvm: Any, buckets: Buckets, output: Any) -> Any:
    """The partitioning of buckets in terms of the attributes that a plan puts out."""
    physical = "org.apache.spark.sql.catalyst.plans.physical"
    if isinstance(buckets.partitioning, UnknownPartitioning):
        return java_class(jvm, f"{physical}.UnknownPartitioning")(len(buckets))
    attributes = _attributes(output)
    keys = [attributes[name] for name in buckets.partitioning.columns]
    return java_class(jvm, f"{physical}.HashPartitioning")(scala_seq(jvm, keys), len(buckets))


def java_ordering(jvm: Any, buckets: Buckets, output: Any) -> Any:
    """The order of the rows of each bucket in terms of the attributes that a plan puts out."""
    expressions = "org.apache.spark.sql.catalyst.expressions"
    sort_order = java_class(jvm, f"{expressions}.SortOrder")
    attributes = _attributes(output)
    orders = []
    for column in buckets.ordering:
        direction = scala_object(jvm, f"{expressions}.{'Ascending' if column.ascending else 'Descending'}")
        nulls = scala_object(jvm, f"{expressions}.{'NullsFirst' if column.nulls_first else 'NullsLast'}")
        orders.append(sort_order(attributes[column.name], direction, nulls, scala_seq(jvm, [])))
    return scala_seq(jvm, orders)


def row_bytes(schema: Any) -> int:
    """About how many bytes a row of these columns takes, by Spark's own estimate."""
    size: int = schema.defaultSize()
    return max(size, 1)


def _statistics(spark: SparkSession, buckets: Buckets, bytes_a_row: int) -> Any:
    """Statistics of the right size, which decides about broadcasts.

    They are those of as many numbers as make that size: Py4J cannot hand over the numbers that they are made of.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    if buckets.rows is None:
        return scala_none(jvm)
    numbers = spark.range(-(-buckets.rows * bytes_a_row // _BYTES_A_NUMBER))
    return jvm.scala.Some(numbers._jdf.queryExecution().optimizedPlan().stats())  # noqa: SLF001


def _attributes(output: Any) -> dict[str, Any]:
    return {output.apply(i).name(): output.apply(i) for i in range(output.size())}
