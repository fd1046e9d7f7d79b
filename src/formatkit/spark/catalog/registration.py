"""Tells a session about SQL catalogs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pyiceberg.catalog import Catalog
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from formatkit.errors import ConfigurationError
from formatkit.spark.catalog.classes import catalog_class, install_write_strategy
from formatkit.spark.catalog.sql_catalog import SqlCatalog
from formatkit.spark.catalogs import CATALOG_CLASS
from formatkit.spark.strategy import install_strategy
from formatkit.spark.types import Nanoseconds

__all__ = ["is_registered", "register_sql_catalogs"]

_NANOSECONDS = "formatkit.nanoseconds"
_SETTING = "spark.sql.catalog."


def register_sql_catalogs(spark: SparkSession, catalogs: Mapping[str, Catalog]) -> None:
    """Let SQL of the session find tables as ``<name>.<namespace>.<table>``. A name that is there already is replaced.

    Args:
        spark: A classic session.
        catalogs: Catalogs of pyiceberg by the names that SQL is to have for them.

    Raises:
        UnsupportedError: The class loader of this session takes no classes.
        ConfigurationError: The name belongs to a catalog of another kind.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001
    install_strategy(spark)
    found = catalog_class(jvm)
    install_write_strategy(spark)
    delegates = found.getField("DELEGATES").get(None)
    for name, catalog in catalogs.items():
        setting = f"{_SETTING}{name}"
        other = spark.conf.get(setting, None)
        if other not in (None, CATALOG_CLASS):
            raise ConfigurationError(f"{setting} is {other}, so that {name} cannot be a catalog of formatkit")
        delegates.put(name, SqlCatalog(spark, name, catalog, _nanoseconds(catalog)))
        spark.conf.set(setting, CATALOG_CLASS)


def is_registered(spark: SparkSession, name: str) -> bool:
    """Whether a classic session has been told of a catalog of this name."""
    found = catalog_class(spark.sparkContext._jvm)  # noqa: SLF001
    return bool(found.getField("DELEGATES").get(None).containsKey(name))


def _nanoseconds(catalog: Catalog) -> Nanoseconds:
    """A property of the catalog says what becomes of timestamps in nanoseconds, which Spark lacks."""
    asked = catalog.properties.get(_NANOSECONDS, "error")
    if asked not in ("error", "floor", "integer"):
        raise ConfigurationError(
            f"the property {_NANOSECONDS} of the catalog is {asked!r}, not error, floor or integer"
        )
    return cast("Nanoseconds", asked)
