"""A catalog `fk` of Spark SQL over a catalog of pyiceberg in SQLite, a new one for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import formatkit.spark


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog("tests", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    made.create_namespace("db")
    formatkit.spark.register(spark, fk=made)
    yield made
    made.close()
