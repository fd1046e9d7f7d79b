"""Brings the catalog's classes of Java to the driver: Spark's own compiler makes them of their source.

Executors need none of them: what runs there is `mapInArrow`, which is Spark's own.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from formatkit.errors import UnsupportedError
from formatkit.spark.catalogs import CATALOG_CLASS
from formatkit.spark.java import java_class, scala_object, scala_seq

__all__ = ["catalog_class", "install_write_strategy", "nested_class"]

_LOADER = "org.apache.spark.util.MutableURLClassLoader"


@lru_cache(maxsize=4)
def catalog_class(jvm: Any) -> Any:
    """The class of Java, found by its name from now on wherever Spark looks for catalogs."""
    loader = java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    compiler = java_class(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(loader)
    compiler.cook(files(__package__).joinpath("FormatkitCatalog.java").read_text("utf-8"))
    # Spark deletes the folder when it ends.
    made = scala_object(jvm, "org.apache.spark.util.Utils").createTempDir(
        java_class(jvm, "java.lang.System").getProperty("java.io.tmpdir"), "formatkit"
    )
    classes = compiler.getBytecodes()
    for name in classes.keySet():
        path = Path(made.getPath(), *name.split(".")).with_suffix(".class")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(classes.get(name)))
    if not java_class(jvm, "java.lang.Class").forName(_LOADER).isInstance(loader):
        message = (
            f"the class loader of this session ({loader.getClass().getName()}) takes no classes, so that there can be "
            "no SQL catalog; start Spark by spark-submit or pyspark"
        )
        raise UnsupportedError(message)
    loader.addURL(made.toURI().toURL())
    return loader.loadClass(CATALOG_CLASS)


def nested_class(jvm: Any, name: str) -> Any:
    """One of the classes inside of the catalog's, to be called from here."""
    catalog_class(jvm)
    return java_class(jvm, f"{CATALOG_CLASS}${name}")


def install_write_strategy(spark: SparkSession) -> None:
    """Give the session's planner the strategy for writes, once."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    experimental = spark._jsparkSession.experimental()  # noqa: SLF001
    installed = experimental.extraStrategies()
    strategies = [installed.apply(i) for i in range(installed.size())]
    if any(strategy.getClass().getName() == f"{CATALOG_CLASS}$WriteStrategy" for strategy in strategies):
        return
    strategy = nested_class(jvm, "WriteStrategy")()
    getattr(experimental, "extraStrategies_$eq")(scala_seq(jvm, [strategy, *strategies]))
