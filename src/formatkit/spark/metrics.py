"""What executors count while they read, brought to the driver by an accumulator that Spark's stage page shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from formatkit.spark.java import compiled_class
from formatkit.spark.session import is_connect
from formatkit.spark.versions import obstacle

__all__ = ["BucketCounters", "Counts", "ReadMetrics", "new_counters"]

Counts = dict[int, dict[str, int]]
"""What was counted, by the number of the bucket."""

_CLASS = "org.formatkit.spark.BucketCounters"
# Workers of Python send what they counted as pickled pairs of a number and a value. On executors the accumulator is
# Spark's own, and only collects them. Here, on the driver, they are read, summed up, and replaced by text before Spark
# shows them: those of a task as its update, those of all buckets as the value of the stage.
_SOURCE = """
package org.formatkit.spark;

import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.CollectionAccumulator;

public final class BucketCounters extends CollectionAccumulator {
  private final TreeMap runs = new TreeMap();

  public SimplePythonFunction counting(SimplePythonFunction f) {
    return f.copy(f.command(), f.envVars(), f.pythonIncludes(), f.pythonExec(), f.pythonVer(), f.broadcastVars(), this);
  }

  public synchronized void merge(AccumulatorV2 other) {
    TreeMap task = new TreeMap();
    Iterator updates = ((List) other.value()).iterator();
    while (updates.hasNext()) {
      try {
        Object[] update = (Object[]) new Unpickler().loads((byte[]) updates.next());
        Iterator counted = ((Map) update[1]).entrySet().iterator();
        while (counted.hasNext()) {
          Map.Entry each = (Map.Entry) counted.next();
          task.put(Long.valueOf(((Number) each.getKey()).longValue()), each.getValue());
        }
      } catch (java.io.IOException error) {
        throw new RuntimeException(error);
      }
    }
    runs.putAll(task);
    ((CollectionAccumulator) other).setValue(sums(task));
  }

  public synchronized boolean isZero() {
    return runs.isEmpty();
  }

  public synchronized void reset() {
    runs.clear();
  }

  public synchronized List value() {
    return sums(runs);
  }

  public synchronized String json() {
    StringBuilder text = new StringBuilder("{");
    Iterator buckets = runs.entrySet().iterator();
    while (buckets.hasNext()) {
      Map.Entry bucket = (Map.Entry) buckets.next();
      text.append(text.length() > 1 ? ", " : "").append('"').append(bucket.getKey()).append("\\": {");
      Iterator counts = ((Map) bucket.getValue()).entrySet().iterator();
      boolean first = true;
      while (counts.hasNext()) {
        Map.Entry count = (Map.Entry) counts.next();
        text.append(first ? "" : ", ").append('"').append(count.getKey()).append("\\": ").append(count.getValue());
        first = false;
      }
      text.append('}');
    }
    return text.append('}').toString();
  }

  private static List sums(Map runs) {
    TreeMap totals = new TreeMap();
    Iterator buckets = runs.values().iterator();
    while (buckets.hasNext()) {
      Iterator counts = ((Map) buckets.next()).entrySet().iterator();
      while (counts.hasNext()) {
        Map.Entry count = (Map.Entry) counts.next();
        Number before = (Number) totals.get(count.getKey());
        long sum = (before == null ? 0L : before.longValue()) + ((Number) count.getValue()).longValue();
        totals.put(count.getKey(), Long.valueOf(sum));
      }
    }
    StringBuilder text = new StringBuilder();
    Iterator names = totals.entrySet().iterator();
    while (names.hasNext()) {
      Map.Entry total = (Map.Entry) names.next();
      text.append(text.length() > 0 ? ", " : "").append(total.getKey()).append(' ').append(total.getValue());
    }
    // The pages show a few elements of a list only.
    return text.length() > 0 ? Collections.singletonList(text.toString()) : Collections.EMPTY_LIST;
  }
}
"""


class _LastRunOfEach(AccumulatorParam[Counts]):
    """Keeps what was counted last of each bucket, so that a bucket that is read twice is not counted twice."""

    def zero(self, value: Counts) -> Counts:
        return {}

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802 - Spark's name
        return value1 | value2


class BucketCounters:
    """The counters of one scan.

    Attributes:
        accumulator: What workers add to.
    """

    def __init__(self, spark: SparkSession, title: str) -> None:
        context: Any = spark.sparkContext
        self.accumulator: Accumulator[Counts] = context.accumulator({}, _LastRunOfEach())
        self._java: Any = None
        if obstacle(spark) is None:
            self._java = compiled_class(context._jvm, _CLASS, _SOURCE).getConstructors()[0].newInstance(None)  # noqa: SLF001
            context._jsc.sc().register(self._java, title)  # noqa: SLF001

    @property
    def is_named(self) -> bool:
        """Whether Spark's pages show them."""
        return self._java is not None

    def counting(self, function: Any) -> Any:
        """The same function of Python, as the JVM has it, counting here."""
        return self._java.counting(function)

    @property
    def value(self) -> Counts:
        """What was counted so far."""
        if self._java is None:
            return dict(self.accumulator.value)
        return {int(bucket): counts for bucket, counts in json.loads(self._java.json()).items()}


def new_counters(spark: SparkSession, title: str = "formatkit") -> BucketCounters | None:
    """Counters for one scan, which Spark's pages call by the title; None where the session has none to offer."""
    return None if is_connect(spark) else BucketCounters(spark, title)


@dataclass(frozen=True)
class ReadMetrics:
    """What was counted in the last run of each bucket.

    Attributes:
        by_bucket: For each bucket that was read to its end, or as far as Spark wanted: ``files`` and ``bytes`` as the
            plan has them, ``rows`` and ``arrow_bytes`` as they were handed over, ``read_ms`` spent on reading,
            ``handover_ms`` spent on waiting for Spark to take them, and what the readers counted, ``io_waited_us``
            among it.
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
