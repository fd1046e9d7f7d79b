"""A Spark Connect server in this machine's own JVM, and a session that talks to it as to a remote one."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder: Path = tmp_path_factory.mktemp("connect")
    builder = SparkSession.builder.remote("local[2]").config(
        map={
            "spark.driver.memory": "1g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.python.daemon.module": "formatkit.spark.daemon",
            "spark.ui.enabled": "false",
        }
    )
    with warnings.catch_warnings():
        # The server starts with these settings, and warns that they cannot be changed later.
        warnings.simplefilter("ignore", UserWarning)
        session = builder.getOrCreate()
    yield session
    session.stop()
