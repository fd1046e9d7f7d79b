"""A strategy for Spark's planner: scans of ours become the plan of `mapInArrow`, with partitioning and order declared.

Spark plans other scans row by row through its reader interfaces, which costs more than `mapInArrow` does, and which
have no way to say that rows are hashed as Spark itself would.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from formatkit.scan.buckets import Buckets
from formatkit.spark.declared import java_ordering, java_partitioning
from formatkit.spark.java import compiled_class, java_class, scala_none, scala_seq

__all__ = ["install_strategy", "physical_plan"]

_CLASS = "org.formatkit.spark.ScanStrategy"
# A strategy must be a class of Java, because Spark's is abstract and not an interface. Spark's own compiler for
# generated code makes it, on the driver, where alone it is used. Our scans are known by being functions from the
# logical relation to the physical plan. Those under a dynamic filter are left to Spark, which runs it for them.
_SOURCE = """
package org.formatkit.spark;

import java.util.function.Function;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

public final class ScanStrategy extends SparkStrategy {
  public Seq apply(LogicalPlan plan) {
    DataSourceV2ScanRelation relation = ours(plan);
    if (relation == null) {
      return (Seq) Nil$.MODULE$;
    }
    SparkPlan planned;
    if (plan instanceof Project) {
      planned = new ProjectExec(((Project) plan).projectList(), planLater(((Project) plan).child()));
    } else if (plan instanceof Filter) {
      planned = new FilterExec(((Filter) plan).condition(), planLater(((Filter) plan).child()));
    } else {
      planned = (SparkPlan) ((Function) (Object) relation.scan()).apply(relation);
    }
    return (Seq) Nil$.MODULE$.$colon$colon(planned);
  }

  private static DataSourceV2ScanRelation ours(LogicalPlan plan) {
    while (true) {
      if (plan instanceof Project) {
        plan = ((Project) plan).child();
      } else if (plan instanceof Filter) {
        TreePattern$ patterns = TreePattern$.MODULE$;
        Filter filter = (Filter) plan;
        if (filter.condition().containsPattern(patterns.DYNAMIC_PRUNING_SUBQUERY())
            || filter.condition().containsPattern(patterns.DYNAMIC_PRUNING_EXPRESSION())) {
          return null;
        }
        plan = filter.child();
      } else if (plan instanceof DataSourceV2ScanRelation) {
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) plan;
        return (Object) relation.scan() instanceof Function ? relation : null;
      } else {
        return null;
      }
    }
  }
}
"""


def install_strategy(spark: SparkSession) -> None:
    """Give the session's planner the strategy, once."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    experimental = spark._jsparkSession.experimental()  # noqa: SLF001
    installed = experimental.extraStrategies()
    strategies = [installed.apply(i) for i in range(installed.size())]
    if any(strategy.getClass().getName() == _CLASS for strategy in strategies):
        return
    strategy = compiled_class(jvm, _CLASS, _SOURCE).getConstructors()[0].newInstance(None)
    getattr(experimental, "extraStrategies_$eq")(scala_seq(jvm, [strategy, *strategies]))


def physical_plan(rows: DataFrame, function: Any, buckets: Buckets, output: Any, name: str) -> Any:
    """The plan of `mapInArrow` over buckets, as the plan of a relation.

    Args:
        rows: What tells the function its work, that of bucket i in partition i.
        function: What reads the buckets, as the JVM has it.
        buckets: The buckets, with what is known about them.
        output: The attributes of the relation, which are what the function returns by position.
        name: What `explain` shows.
    """
    jvm: Any = rows.sparkSession.sparkContext._jvm  # noqa: SLF001
    rdd_scan = java_class(jvm, "org.apache.spark.sql.execution.RDDScanExec")
    map_in_arrow = java_class(jvm, "org.apache.spark.sql.execution.python.MapInArrowExec")
    work = rows._jdf.queryExecution().sparkPlan()  # noqa: SLF001
    given = work.output()
    nothing, none = scala_seq(jvm, []), scala_none(jvm)
    partitioning = java_partitioning(jvm, buckets, output)
    # What reads has the partitioning of what it is given, so that is where it is declared.
    told = rdd_scan(given, work.execute(), name, partitioning, nothing, none)
    reading = map_in_arrow(function.builder(given), output, told, False, none)
    if not buckets.ordering:
        return reading
    ordering = java_ordering(jvm, buckets, output)
    return rdd_scan(output, reading.execute(), name, partitioning, ordering, none)
