"""A driver of a Spark cluster that does one write and is killed at a chosen point.

    python -m support.doomed_driver MASTER FOLDER SCENARIO KEY [POINT]

Its table must be there already. Without a point it lives.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from support.faulty_writes import Faults, Scenario
from support.repository import ROOT
from support.spark_cluster import JAVA_OPTIONS

__all__ = ["POINTS", "catalog_of"]

POINTS = ("task", "before", "inside", "after")
"""When a task has completed a file; before the catalog is asked, when it has taken the commit and nobody knows yet, and
when the write is done."""


def catalog_of(folder: Path) -> SqlCatalog:
    """The catalog of the tests of one folder."""
    return SqlCatalog(
        "faulty",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=(folder / "warehouse").as_uri(),
        **Faults(folder / "faults").properties(),
    )


def main(master: str, folder: Path, scenario: Scenario, key: str, point: str = "") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .appName("doomed")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.cores.max", "2")
        .config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        .config("spark.executor.extraJavaOptions", JAVA_OPTIONS)
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests"))))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    jvm: Any = spark.sparkContext._jvm
    processes = (int(jvm.java.lang.ProcessHandle.current().pid()), os.getpid())

    def die() -> None:
        for process in processes:
            os.kill(process, signal.SIGKILL)

    ask = Table._do_commit

    def ask_and_die(*arguments: Any, **more: Any) -> None:
        if point == "before":
            die()
        ask(*arguments, **more)
        if point == "inside":
            die()

    Table._do_commit = ask_and_die  # type: ignore[method-assign]
    if point == "task":
        Faults(folder / "faults").plan("kill driver", processes=processes)
    scenario.run(spark, catalog_of(folder), key)
    if point == "after":
        die()
    spark.stop()


if __name__ == "__main__":
    master, folder, told, key, *point = sys.argv[1:]
    main(master, Path(folder), Scenario(**json.loads(told)), key, *point)
