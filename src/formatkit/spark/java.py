"""Objects of Java and Scala, made from here, and objects of ours that are some to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

__all__ = [
    "JavaObject",
    "compiled_class",
    "construct",
    "is_since",
    "java_array",
    "java_class",
    "java_columns",
    "java_type",
    "optional_long",
    "scala_none",
    "scala_object",
    "scala_seq",
]


class JavaObject:
    """What every object of Java can do, and Py4J leaves to objects of Python.

    Defaults of Java's interfaces do not reach them either: each has every method that Spark may call.
    """

    def equals(self, other: Any) -> bool:
        return other is self

    def hashCode(self) -> int:  # noqa: N802 - Java's name
        return id(self) & 0x7FFFFFFF

    def toString(self) -> str:  # noqa: N802 - Java's name
        return f"formatkit {type(self).__name__}"


@lru_cache(maxsize=16)
def compiled_class(jvm: Any, name: str, source: str) -> Any:
    """A class of Java, made of its source by Spark's own compiler for generated code. Only the driver has it."""
    compiler = java_class(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name)


def java_class(jvm: Any, name: str) -> Any:
    """A class of Java by its full name. Finding one by its packages asks the JVM, and its jars, for each of them."""
    return JavaClass(name, jvm._gateway_client)  # noqa: SLF001


def construct(jvm: Any, name: str, *arguments: Any) -> Any:
    """An object of a class whose constructor got more parameters from one version of Spark to the next.

    Args:
        jvm: The JVM.
        name: The full name of the class.
        arguments: What the newest version takes. Older ones lack the last of them, which say nothing there.
    """
    return java_class(jvm, name)(*arguments[: _parameter_count(jvm, name)])


@lru_cache(maxsize=16)
def _parameter_count(jvm: Any, name: str) -> int:
    loader = java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    return max(len(each.getParameterTypes()) for each in loader.loadClass(name).getConstructors())


def java_array(spark: SparkSession, kind: Any, items: Sequence[Any] = ()) -> Any:
    """An array of a class of Java."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    array = gateway.new_array(kind, len(items))
    for i, item in enumerate(items):
        java_class(gateway.jvm, "java.lang.reflect.Array").set(array, i, item)
    return array


def java_type(spark: SparkSession, kind: DataType) -> Any:
    """A type of Spark, as the JVM has it."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    return scala_object(jvm, "org.apache.spark.sql.types.DataType").fromJson(kind.json())


def java_columns(spark: SparkSession, schema: Any) -> Any:
    """The columns of a table, of a `StructType` as the JVM has it."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    # Whether to keep the ids of fields is asked since 4.2.
    more = (True,) if is_since(spark, 4, 2) else ()
    return scala_object(jvm, "org.apache.spark.sql.connector.catalog.CatalogV2Util").structTypeToV2Columns(
        schema, *more
    )


def is_since(spark: SparkSession, *version: int) -> bool:
    """Whether this is that version of Spark or a newer one."""
    return tuple(map(int, spark.version.split(".")[: len(version)])) >= version


def optional_long(jvm: Any, value: int | None) -> Any:
    """Java's way to have a number or none."""
    optional = java_class(jvm, "java.util.OptionalLong")
    return optional.empty() if value is None else optional.of(value)


@lru_cache(maxsize=64)
def scala_object(jvm: Any, name: str) -> Any:
    """A singleton object of Scala by its full name."""
    return getattr(java_class(jvm, f"{name}$"), "MODULE$")


def scala_none(jvm: Any) -> Any:
    """Scala's `None`."""
    return scala_object(jvm, "scala.None")


def scala_seq(jvm: Any, items: Sequence[Any]) -> Any:
    """A `Seq` of Scala."""
    return java_class(jvm, "org.apache.spark.api.python.PythonUtils").toSeq(list(items))
