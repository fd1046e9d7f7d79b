"""One small Spark with two slots per test process, started when the first test asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.repository import ROOT


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark starts Python on the driver, too, for data sources that tests define.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    session = (
        SparkSession.builder.master("local[2]")
        .appName("formatkit-spark")
        # The pages are asked what they show; any free port will do.
        .config("spark.ui.port", "0")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.daemon.module", "formatkit.spark.daemon")
        .config("spark.ui.showConsoleProgress", "false")
        # A batch that is not exactly what the schema says fails in every test, instead of now and then.
        .config("spark.sql.execution.arrow.pyspark.validateSchema.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
