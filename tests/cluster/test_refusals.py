"""Executors whose Python cannot run formatkit say so in a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import LongType, NestedField
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import formatkit.spark
from formatkit.errors import ConfigurationError
from support.environments import environment_without_formatkit, install_version
from support.iceberg_tables import new_catalog
from support.written_tables import new_table


@pytest.mark.filterwarnings("ignore:Spark's workers run")
def test_executors_that_cannot_run_formatkit_say_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(new_catalog(tmp_path), NestedField(1, "id", LongType()))
    formatkit.spark.write(spark.range(2), table)
    environment = tmp_path / "environment"
    environment_without_formatkit(environment)
    # Executors see this checkout by a variable of theirs.
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {environment}/bin/python "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    with pytest.raises(
        ConfigurationError, match=r"cannot run on Spark's workers: \S+ \(Python .* has no module 'formatkit'"
    ):
        formatkit.spark.write(spark.range(2), table)
    with pytest.raises(PythonException, match=r"formatkit cannot run on this worker: .* has no module 'formatkit'"):
        formatkit.spark.read(spark, table).collect()
    install_version(environment, "0.0.1")
    with pytest.raises(ConfigurationError, match=r"has formatkit 0\.0\.1, and the driver's"):
        formatkit.spark.write(spark.range(2), table)
