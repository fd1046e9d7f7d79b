"""The Python half of objects of Java: calls come in, answers go out, and errors become exceptions that Spark knows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from py4j.java_collections import JavaArray  # type: ignore[import-untyped]
from py4j.java_gateway import JavaObject as JavaObjectOfJvm  # type: ignore[import-untyped]
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyspark.sql import SparkSession

from formatkit.errors import FormatkitError, TableMissingError, without_secrets
from formatkit.spark.java import JavaObject, java_array, java_class, scala_none, scala_object, scala_seq

__all__ = ["Answers", "name_parts"]

_SQL = "org.apache.spark.sql"
_ANALYSIS = f"{_SQL}.catalyst.analysis"
_log = logging.getLogger(__name__)
_ABOUT_NAMES: dict[type[Exception], tuple[str, bool]] = {
    NoSuchTableError: ("NoSuchTableException", False),
    TableMissingError: ("NoSuchTableException", False),
    TableAlreadyExistsError: ("TableAlreadyExistsException", False),
    NoSuchNamespaceError: ("NoSuchNamespaceException", False),
    NamespaceAlreadyExistsError: ("NamespaceAlreadyExistsException", True),
    NamespaceNotEmptyError: ("NonEmptyNamespaceException", True),
}
"""What Spark calls them, and whether it takes the parts of the name as an array."""


class Answers(JavaObject):
    """A function of Java from a call, its name first, to what the method of that name returns.

    An exception of Python that crossed Py4J would be sixty lines of two languages. So it is answered as an exception of
    Java, which the caller throws: for what is missing or there already those by which Spark decides about IF EXISTS.
    """

    class Java:  # noqa: D106 - where Py4J looks
        implements = ("java.util.function.Function",)

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    def jvm(self) -> Any:
        return self.spark.sparkContext._jvm  # noqa: SLF001

    def apply(self, call: Any) -> Any:
        what, *arguments = list(call)
        try:
            return getattr(self, what)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, Spark is to hear of it
            return self._exception(error, arguments)

    def _exception(self, error: Exception, arguments: Sequence[Any]) -> Any:
        if isinstance(error, Py4JJavaError):
            return error.java_exception
        if isinstance(error, tuple(_ABOUT_NAMES)) and arguments and _is_name(arguments[0]):
            return self._about_name(error, name_parts(arguments[0]))
        if isinstance(error, TableMissingError) and error.table:
            # The table was dropped while a query ran, whose calls do not name it.
            return self._about_name(error, error.table.split("."))
        if not isinstance(error, FormatkitError):
            _log.debug("a call of Spark failed", exc_info=error)
        none = scala_none(self.jvm)
        # Spark's documented constructors take the names of its own messages only.
        return java_class(self.jvm, f"{_SQL}.AnalysisException")(
            f"{type(error).__name__}: {without_secrets(_message(error))}",
            none,
            none,
            none,
            none,
            scala_object(self.jvm, "scala.collection.immutable.Map").empty(),
            java_array(self.spark, java_class(self.jvm, "org.apache.spark.QueryContext")),
        )

    def _about_name(self, error: Exception, parts: Sequence[str]) -> Any:
        name, takes_array = next(found for kind, found in _ABOUT_NAMES.items() if isinstance(error, kind))
        kind = java_class(self.jvm, f"{_ANALYSIS}.{name}")
        return kind(self.strings(parts) if takes_array else scala_seq(self.jvm, list(parts)))

    def array(self, kind: str, items: Sequence[Any] = ()) -> Any:
        """An array of a class of Java."""
        return java_array(self.spark, java_class(self.jvm, kind), items)

    def strings(self, items: Sequence[str]) -> Any:
        return self.array("java.lang.String", items)

    def to_map(self, items: dict[str, str]) -> Any:
        """A map of Java with its keys in order."""
        made = java_class(self.jvm, "java.util.TreeMap")()
        for key, value in items.items():
            made.put(key, value)
        return made


def _message(error: Exception) -> str:
    text = str(error)
    # What Py4J raises has Java's stack in it.
    return text.partition("\n\tat ")[0] if isinstance(error, Py4JError) else text


def _is_name(argument: Any) -> bool:
    if isinstance(argument, JavaArray):
        # What tasks of a write report comes as an array too, of bytes.
        return all(isinstance(part, str) for part in argument)
    return isinstance(argument, JavaObjectOfJvm) and argument.getClass().getSimpleName() == "IdentifierImpl"


def name_parts(named: Any) -> list[str]:
    """The parts of the name of a table (an `Identifier`) or of a namespace (an array)."""
    if isinstance(named, JavaArray):
        return [str(part) for part in named]
    return [*named.namespace(), named.name()]
