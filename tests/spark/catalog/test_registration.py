"""How a session learns of SQL catalogs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import formatkit.spark
from formatkit.errors import ConfigurationError
from formatkit.spark.catalogs import CATALOG_CLASS


@pytest.mark.parametrize("prefix", ["spark.formatkit.catalog.", "spark.sql.catalog."])
def test_catalogs_come_from_the_settings_of_the_session(spark: SparkSession, tmp_path: Path, prefix: str) -> None:
    name = f"set{len(prefix)}"
    settings = {
        f"{prefix}{name}.type": "sql",
        f"{prefix}{name}.uri": f"sqlite:///{tmp_path}/catalog.db",
        f"{prefix}{name}.warehouse": tmp_path.as_uri(),
    }
    if prefix.startswith("spark.sql"):
        settings[f"{prefix}{name}"] = CATALOG_CLASS
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        formatkit.spark.register(spark)
        spark.sql(f"create namespace {name}.db")
        spark.sql(f"create table {name}.db.t as select 1 id")
        assert spark.table(f"{name}.db.t").collect() == [(1,)]
        # The data source knows the same catalog.
        assert spark.read.format("formatkit").load(f"{name}.db.t").collect() == [(1,)]
    finally:
        for key in settings:
            spark.conf.unset(key)
        formatkit.spark.register(spark)


def test_a_catalog_of_another_kind_keeps_its_name(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.conf.set("spark.sql.catalog.theirs", "org.example.Catalog")
    try:
        with pytest.raises(ConfigurationError, match=r"spark\.sql\.catalog\.theirs is org\.example\.Catalog"):
            formatkit.spark.register(spark, theirs=catalog)
    finally:
        spark.conf.unset("spark.sql.catalog.theirs")


def test_a_session_without_the_strategy_refuses_to_write_instead_of_losing_rows(
    spark: SparkSession, catalog: SqlCatalog
) -> None:
    spark.sql("create table fk.db.t as select 1 id")
    other = spark.newSession()
    other.conf.set("spark.sql.catalog.fk", CATALOG_CLASS)
    assert other.table("fk.db.t").collect() == [(1,)]
    with pytest.raises(Exception, match=r"call formatkit\.spark\.register"):
        other.sql("insert into fk.db.t values (2)")
    formatkit.spark.register(other, fk=catalog)
    other.sql("insert into fk.db.t values (2)")
    assert sorted(spark.table("fk.db.t").collect()) == [(1,), (2,)]
