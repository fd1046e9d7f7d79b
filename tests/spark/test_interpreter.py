"""Workers that run a Python without formatkit, or with another one, are named before a job is run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import formatkit.spark
from formatkit.errors import ConfigurationError
from formatkit.spark.interpreter import check_interpreter
from support.environments import environment_without_formatkit, install_version
from support.repository import ROOT


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    environment_without_formatkit(tmp_path / "environment")
    return tmp_path / "environment"


def test_workers_without_formatkit_are_named(
    spark: SparkSession, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_interpreter(spark)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", f"{environment}/bin/python")
    found = f"{environment}/bin/python, which has no formatkit; this program runs {sys.executable}. Set PYSPARK_PYTHON"
    with pytest.raises(ConfigurationError, match=found):
        formatkit.spark.write(spark.range(1), "db.t")
    with pytest.raises(ConfigurationError, match=found):
        formatkit.spark.read(spark, "db.t")
    with pytest.raises(ConfigurationError, match=found):
        formatkit.spark.register(spark)
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    with pytest.warns(UserWarning, match="has no formatkit"):
        check_interpreter(spark)


def test_workers_with_another_formatkit_are_named(
    spark: SparkSession, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_version(environment, "0.0.1")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", f"{environment}/bin/python")
    with pytest.raises(ConfigurationError, match=r"which has formatkit 0\.0\.1 and not "):
        check_interpreter(spark)
    settings: Any = spark.sparkContext._conf
    settings.set("spark.pyspark.python", "/usr/bin/python3")
    try:
        with pytest.raises(
            ConfigurationError, match=r"spark\.pyspark\.python is /usr/bin/python3, which only spark-submit"
        ):
            check_interpreter(spark)
    finally:
        settings._jconf.remove("spark.pyspark.python")


def test_modules_without_metadata_are_named(
    spark: SparkSession, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", f"{environment}/bin/python")
    with pytest.raises(ConfigurationError, match="without its metadata"):
        check_interpreter(spark)


def test_workers_with_another_python_are_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python3"
    # What another Python would say of itself.
    other.write_text("""#!/bin/sh\necho '{"python": "3.9", "there": true, "formatkit": "0.1.0"}'\n""")
    other.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    here = ".".join(map(str, sys.version_info[:2]))
    with pytest.raises(ConfigurationError, match=rf"which is Python 3\.9 and not {here}"):
        check_interpreter(spark)


def test_an_interpreter_that_is_not_there_is_one_of_executors_on_a_cluster_only(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "./environment/bin/python")
    with pytest.raises(ConfigurationError, match="is no Python that can be run"):
        check_interpreter(spark)
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    check_interpreter(spark)
