"""A session of Spark for programs that are given none, such as the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from formatkit.errors import ConfigurationError
from formatkit.spark.jobs.engine import SparkEngine
from formatkit.spark.session import is_connect

__all__ = ["spark_engine"]

_CONNECT = "sc://"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit tells a program where its JVM is."""


@contextmanager
def spark_engine(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkEngine]:
    """An engine on the session that is active, or on a new one, which is stopped at the end of the block.

    Args:
        master: Where Spark runs, as `spark.master` has it, or the address of a Connect server (``sc://…``). By default
            what spark-submit says, and without that ``local[*]``.
        settings: Of the session.

    Raises:
        ConfigurationError: There is a session already, and `master` is given.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        if master is not None:
            raise ConfigurationError(f"there is a session of Spark already; leave out the master {master}")
        yield SparkEngine(active)
        return
    builder = SparkSession.builder.appName("formatkit")
    given = dict(settings or {})
    if master is not None and master.startswith(_CONNECT):
        builder = builder.remote(master)
    elif master is not None or _SUBMITTED not in os.environ:
        builder = builder.master(master or given.pop("spark.master", "local[*]"))
        if "spark.pyspark.python" not in given:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in {"spark.ui.showConsoleProgress": "false", **given}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        if not is_connect(session):
            session.sparkContext.setLogLevel("ERROR")
        yield SparkEngine(session)
    finally:
        session.stop()
