"""Objects of Java and Scala, made from here, and objects of ours that are some to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType

__all__ = ["JavaObject", "java_array", "java_type", "optional_long", "scala_none", "scala_object", "scala_seq"]


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


def java_array(spark: SparkSession, kind: Any, items: Sequence[Any] = ()) -> Any:
    """An array of a class of Java."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    array = gateway.new_array(kind, len(items))
    for i, item in enumerate(items):
        gateway.jvm.java.lang.reflect.Array.set(array, i, item)
    return array


def java_type(spark: SparkSession, kind: DataType) -> Any:
    """A type of Spark, as the JVM has it."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    return scala_object(jvm.org.apache.spark.sql.types, "DataType").fromJson(kind.json())


def optional_long(jvm: Any, value: int | None) -> Any:
    """Java's way to have a number or none."""
    return jvm.java.util.OptionalLong.empty() if value is None else jvm.java.util.OptionalLong.of(value)


def scala_object(package: Any, name: str) -> Any:
    """A singleton object of Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def scala_none(jvm: Any) -> Any:
    """Scala's `None`."""
    return scala_object(jvm.scala, "None")


def scala_seq(jvm: Any, items: Sequence[Any]) -> Any:
    """A `Seq` of Scala."""
    return jvm.PythonUtils.toSeq(list(items))
