"""What executors count while they read, brought to the driver by an accumulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from formatkit.spark.session import is_connect

__all__ = ["BucketCounters", "ReadMetrics", "new_counters"]

BucketCounters = Accumulator[dict[int, dict[str, int]]]


class _LastRunOfEach(AccumulatorParam[dict[int, dict[str, int]]]):
    """Keeps what was counted last of each bucket, so that a bucket that is read twice is not counted twice."""

    def zero(self, value: dict[int, dict[str, int]]) -> dict[int, dict[str, int]]:
        return {}

    def addInPlace(  # noqa: N802 - Spark's name
        self, value1: dict[int, dict[str, int]], value2: dict[int, dict[str, int]]
    ) -> dict[int, dict[str, int]]:
        return value1 | value2


def new_counters(spark: SparkSession) -> BucketCounters | None:
    """Counters for one scan; None where the session has none to offer."""
    return None if is_connect(spark) else spark.sparkContext.accumulator({}, _LastRunOfEach())


@dataclass(frozen=True)
class ReadMetrics:
    """What was counted in the last run of each bucket.

    Attributes:
        by_bucket: For each bucket that was read to its end, or as far as Spark wanted: ``files`` and ``bytes`` as the
            plan has them, ``rows`` and ``arrow_bytes`` as they were handed over, ``read_ms`` spent on reading,
            ``handover_ms`` spent on waiting for Spark to take them, and what the readers counted.
    """

    by_bucket: Mapping[int, Mapping[str, int]]

    @property
    def total(self) -> dict[str, int]:
        """The sums over all buckets."""
        sums: Counter[str] = Counter()
        for counts in self.by_bucket.values():
            sums.update(counts)
        return dict(sums)

    def __str__(self) -> str:
        names = list(self.total)
        lines = [["bucket", *names]]
        for bucket, counts in sorted(self.by_bucket.items()):
            lines.append([str(bucket), *(str(counts.get(name, 0)) for name in names)])
        lines.append(["all", *map(str, self.total.values())])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ([cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
        return "\n".join(map("  ".join, padded))
