"""Which of Spark's own parts may be used: what no interface promises is used only where it was tried."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from formatkit.errors import UnsupportedError
from formatkit.spark.session import is_connect

__all__ = ["TRIED_VERSIONS", "check_data_sources", "check_jobs", "check_stream_sink", "check_stream_source", "obstacle"]

TRIED_VERSIONS = ("4.0", "4.1", "4.2", "4.3")
"""Minor versions of Spark on which the tests have run."""

_CATALYST = "org.apache.spark.sql.catalyst"
_EXECUTION = "org.apache.spark.sql.execution"
_PYTHON = f"{_EXECUTION}.datasources.v2.python"
# The constructors that are called, by the simple names of what they take. Those after the bar came with later versions.
_CONSTRUCTORS = {
    f"{_CATALYST}.plans.physical.HashPartitioning": "Seq int",
    f"{_EXECUTION}.LogicalRDD": "Seq RDD Partitioning Seq boolean Option SparkSession Option Option | boolean",
    f"{_EXECUTION}.RDDScanExec": "Seq RDD String Partitioning Seq Option",
    f"{_EXECUTION}.python.MapInArrowExec": "Expression Seq SparkPlan boolean Option",
    f"{_PYTHON}.PythonInputPartition": "int byte[]",
    f"{_PYTHON}.PythonPartitionReaderFactory": "UserDefinedPythonDataSource byte[] StructType Option | Option",
    f"{_PYTHON}.UserDefinedPythonDataSource": "PythonFunction",
    f"{_EXECUTION}.python.UserDefinedPythonFunction": "String PythonFunction DataType int boolean | List List",
    "org.apache.spark.api.python.SimplePythonFunction": "Seq Map List String String List CollectionAccumulator",
    "org.codehaus.janino.SimpleCompiler": "",
}


def obstacle(spark: SparkSession) -> str | None:
    """Why plans cannot be given to this session's optimizer; None if they can."""
    if is_connect(spark):
        return "Spark Connect has no optimizer that could be reached from here"
    version = spark.version
    if not version.startswith(tuple(f"{tried}." for tried in TRIED_VERSIONS)):
        return f"this is Spark {version}; tried are {', '.join(TRIED_VERSIONS)}"
    if pyspark.__version__.split(".")[:2] != version.split(".")[:2]:
        return f"PySpark {pyspark.__version__} talks to Spark {version}"
    return _missing(spark.sparkContext._jvm)  # noqa: SLF001


def check_data_sources() -> None:
    """Raise `UnsupportedError` if this PySpark has no data sources of Python."""
    _check("data sources of Python", (4, 0), "use formatkit.spark.read and formatkit.spark.write")


def check_jobs() -> None:
    """Raise `UnsupportedError` if jobs that this PySpark runs cannot be interrupted."""
    _check("jobs on executors", (4, 0), "leave the engine out, and they run here")


def check_stream_source() -> None:
    """Raise `UnsupportedError` if this PySpark lacks what reading tables as streams needs."""
    _check("streams from tables", (4, 2), "read ranges of snapshots by start_snapshot_id")


def check_stream_sink() -> None:
    """Raise `UnsupportedError` if this PySpark lacks what writing streams to tables needs."""
    _check("streams into tables", (4, 1), "use foreachBatch and formatkit.spark.write")


def _check(what: str, needed: tuple[int, int], instead: str) -> None:
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < needed:
        least = ".".join(map(str, needed))
        raise UnsupportedError(f"{what} need PySpark {least} or newer, and this is {pyspark.__version__}; {instead}")


@lru_cache(maxsize=4)
def _missing(jvm: Any) -> str | None:
    """The first of the parts that is not as it was when it was tried."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name, expected in _CONSTRUCTORS.items():
        try:
            constructors = loader.loadClass(name).getConstructors()
        except Exception:  # noqa: BLE001 - whatever Java throws, the class is not to be had
            return f"this Spark has no {name}"
        found = [" ".join(kind.getSimpleName() for kind in each.getParameterTypes()) for each in constructors]
        older, _, later = expected.partition(" | ")
        if not {older, f"{older} {later}".strip()} & set(found):
            return f"{name} of this Spark is not the one that was tried: it takes {', or '.join(found)}"
    return None
