"""Runs the tasks of a write on Spark, once, and brings back what they report."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from formatkit.errors import InternalError
from formatkit.spark.metrics import new_counters
from formatkit.spark.session import BucketFunction, map_each, map_in_arrow
from formatkit.spark.writing.task import MESSAGE_COLUMN, TaskFiles, WriteRows, WriteTask
from formatkit.spark.writing.task_errors import typed_errors

__all__ = ["engine_properties", "report_tasks", "run_on_work", "run_tasks", "speculates"]

_MESSAGES = StructType([StructField(MESSAGE_COLUMN, BinaryType(), True)])


def engine_properties(spark: SparkSession, configuration: Mapping[str, str]) -> dict[str, str]:
    """What the summary of a snapshot says of the engine that made it."""
    application = configuration.get("spark.app.id")
    return {"engine-version": spark.version, **({"spark.app.id": application} if application else {})}


def speculates(configuration: Mapping[str, str]) -> bool:
    """Whether Spark may run a task twice at the same time."""
    return configuration.get("spark.speculation", "false").lower() == "true"


def run_tasks(df: DataFrame, task: WriteTask, title: str = "formatkit write") -> list[TaskFiles]:
    """Write the rows of a DataFrame, one task a partition, and return what the winning attempts report.

    Each call runs the tasks, and files that nobody commits or removes stay.
    """
    return report_tasks(df, WriteRows(task, title=title), title)


def report_tasks(df: DataFrame, function: BucketFunction, title: str) -> list[TaskFiles]:
    """Run a function that writes files over the rows of a DataFrame, and return what the winning attempts report.

    Args:
        df: The rows.
        function: Reports one `TaskFiles` for each partition; its attribute ``counters`` is set.
        title: How Spark's pages call what is counted.
    """
    counters = new_counters(df.sparkSession, title)
    if counters is not None:
        function.counters = counters.accumulator  # type: ignore[attr-defined]
    return _messages(map_in_arrow(df, function, _MESSAGES, counters))


def run_on_work(spark: SparkSession, work: Sequence[Any], function: BucketFunction, title: str) -> list[TaskFiles]:
    """Run a function that writes files over pieces of work, one task a piece, and return what the attempts report.

    Args:
        spark: The session.
        work: What the tasks are to do; it is pickled.
        function: Reports one `TaskFiles` for each piece; its attribute ``counters`` is set.
        title: How Spark's pages call what is counted.
    """
    counters = new_counters(spark, title)
    if counters is not None:
        function.counters = counters.accumulator  # type: ignore[attr-defined]
    messages = _messages(map_each(spark, work, function, _MESSAGES, counters))
    if len(messages) != len(work):
        raise InternalError(f"{len(work)} tasks ran, and {len(messages)} reported their files; nothing was committed")
    return messages


def _messages(reports: DataFrame) -> list[TaskFiles]:
    with typed_errors():
        rows = reports.collect()
    found: list[TaskFiles] = [pickle.loads(row[0]) for row in rows]  # noqa: S301 - a task of ours made it
    partitions = sorted(message.partition for message in found)
    if partitions != list(range(len(partitions))):
        message = (
            f"each task must report its files once, and those of the partitions {partitions} did; nothing was committed"
        )
        raise InternalError(message)
    return found
