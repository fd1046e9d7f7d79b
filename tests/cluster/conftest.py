"""One cluster of two workers per test process, and a session over it, started when the first test asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.repository import ROOT
from support.spark_cluster import JAVA_OPTIONS, spark_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. Each worker has a core for the session, and one for whoever submits a job of its own."""
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master


@pytest.fixture(scope="session")
def spark(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("session")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(cluster)
        # One of each worker.
        .config("spark.cores.max", "2")
        .appName("formatkit-cluster")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
        .config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
        .config("spark.executor.extraJavaOptions", JAVA_OPTIONS)
        # Executors run the code of this checkout, whichever one is installed.
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests"))))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(folder / "driver"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1")
        # An executor that is gone does not come back at its address: asking it again for its blocks is of no use.
        .config("spark.shuffle.io.maxRetries", "1")
        .config("spark.shuffle.io.retryWait", "100ms")
        # A task that takes far longer than others is run a second time, elsewhere.
        .config("spark.speculation", "true")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.minTaskRuntime", "20s")
        .config("spark.speculation.efficiency.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
