"""A strategy for Spark's planner: scans of ours become the plan of `mapInArrow`, with partitioning and order declared.

Scans right below a group-by, a window or a join are hashed as Spark would hash their rows, where that costs nothing.

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
# Spark plans from the top down, so that what a group-by, a window or a join needs is known before the scan below it is
# planned. A scan is asked how many buckets it would have, then told how many to make: as many on both sides of a join.
_SOURCE = """
package org.formatkit.spark;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.IntConsumer;
import java.util.function.ToIntBiFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

public final class ScanStrategy extends SparkStrategy {
  public Seq apply(LogicalPlan plan) {
    DataSourceV2ScanRelation relation = ours(plan);
    if (relation == null) {
      hash(plan);
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

  private static void hash(LogicalPlan plan) {
    if (plan instanceof Aggregate) {
      hash(((Aggregate) plan).child(), ((Aggregate) plan).groupingExpressions());
    } else if (plan instanceof Window) {
      hash(((Window) plan).child(), ((Window) plan).partitionSpec());
    } else if (plan instanceof Join) {
      hash((Join) plan);
    }
  }

  private static void hash(LogicalPlan child, Seq keys) {
    DataSourceV2ScanRelation relation = ours(child);
    if (relation != null) {
      int count = buckets(relation, columns(child, keys), false);
      if (count > 0) {
        ((IntConsumer) (Object) relation.scan()).accept(count);
      }
    }
  }

  private static void hash(Join join) {
    DataSourceV2ScanRelation left = ours(join.left());
    DataSourceV2ScanRelation right = ours(join.right());
    if (left == null || right == null || isBroadcast(join)) {
      return;
    }
    Option found = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (found.isEmpty()) {
      return;
    }
    Product parts = (Product) found.get();
    int leftCount = buckets(left, columns(join.left(), (Seq) parts.productElement(1)), true);
    int rightCount = leftCount == 0 ? 0 : buckets(right, columns(join.right(), (Seq) parts.productElement(2)), true);
    if (rightCount > 0) {
      int count = Math.max(leftCount, rightCount);
      ((IntConsumer) (Object) left.scan()).accept(count);
      ((IntConsumer) (Object) right.scan()).accept(count);
    }
  }

  private static boolean isBroadcast(Join join) {
    BigInteger limit = BigInteger.valueOf(join.conf().autoBroadcastJoinThreshold());
    return join.hint().leftHint().isDefined()
        || join.hint().rightHint().isDefined()
        || join.left().stats().sizeInBytes().bigInteger().compareTo(limit) <= 0
        || join.right().stats().sizeInBytes().bigInteger().compareTo(limit) <= 0;
  }

  private static int buckets(DataSourceV2ScanRelation relation, List columns, boolean all) {
    return ((ToIntBiFunction) (Object) relation.scan()).applyAsInt(columns, Boolean.valueOf(all));
  }

  /** The columns of the scan that keys are; null for a key that is computed. */
  private static List columns(LogicalPlan plan, Seq keys) {
    List columns = new ArrayList();
    for (int i = 0; i < keys.length(); i++) {
      columns.add(column(plan, (Expression) keys.apply(i)));
    }
    return columns;
  }

  private static String column(LogicalPlan plan, Expression key) {
    while (key instanceof AttributeReference) {
      if (plan instanceof Project) {
        key = named(((Project) plan).projectList(), ((AttributeReference) key).exprId());
        plan = ((Project) plan).child();
      } else if (plan instanceof Filter) {
        plan = ((Filter) plan).child();
      } else {
        return ((AttributeReference) key).name();
      }
    }
    return null;
  }

  private static Expression named(Seq list, ExprId id) {
    for (int i = 0; i < list.length(); i++) {
      NamedExpression each = (NamedExpression) list.apply(i);
      if (each.exprId().equals(id)) {
        return each instanceof Alias ? ((Alias) each).child() : (Expression) each;
      }
    }
    return null;
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
