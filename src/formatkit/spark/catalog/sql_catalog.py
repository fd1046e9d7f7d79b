"""The catalog that Spark asks for namespaces and tables, over one of pyiceberg."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.integrations.pyiceberg.trust import guarded
from formatkit.spark.catalog.alteration import alter_table
from formatkit.spark.catalog.answers import Answers, name_parts
from formatkit.spark.catalog.classes import nested_class
from formatkit.spark.catalog.creation import NewTable, wanted_table
from formatkit.spark.catalog.current_table import CurrentTable
from formatkit.spark.catalog.metadata_tables import METADATA_TABLES, metadata_table
from formatkit.spark.catalog.procedures import PROCEDURES, procedure
from formatkit.spark.catalog.tables import ReadTable, describe, has_nanoseconds
from formatkit.spark.java import java_class
from formatkit.spark.options import Version
from formatkit.spark.time_travel import at_version
from formatkit.spark.types import Nanoseconds

__all__ = ["SqlCatalog"]

_CATALOG = "org.apache.spark.sql.connector.catalog"
_MISSING = (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError)
_SYSTEM = "system"


class SqlCatalog(Answers):
    """Answers what Spark asks about a catalog of pyiceberg.

    Args:
        spark: A classic session.
        name: What Spark calls the catalog.
        catalog: Where tables are.
        nanoseconds: What becomes of timestamps in nanoseconds; as in `formatkit.spark.read`.
    """

    def __init__(self, spark: SparkSession, name: str, catalog: Catalog, nanoseconds: Nanoseconds = "error") -> None:
        super().__init__(spark)
        self._name = name
        self._catalog = guarded(catalog)
        self._nanoseconds: Nanoseconds = nanoseconds

    def check(self) -> None:
        """Nothing to do: that Python answers is what Spark wants to know."""

    def capabilities(self) -> Any:
        return java_class(self.jvm, "java.util.HashSet")()

    def defaultNamespace(self) -> Any:
        return self.strings([])

    # Namespaces

    def listNamespaces(self, namespace: Any) -> Any:
        parent = tuple(namespace)
        found = sorted({self._child(parent, each) for each in self._catalog.list_namespaces(parent)})
        gateway: Any = self.spark.sparkContext._gateway  # noqa: SLF001
        made = gateway.new_array(self.jvm.java.lang.String, len(found), len(parent) + 1)
        for i, parts in enumerate(found):
            for j, part in enumerate(parts):
                made[i][j] = part
        return made

    @staticmethod
    def _child(parent: tuple[str, ...], found: Sequence[str]) -> tuple[str, ...]:
        """Some catalogs say the whole name, and some what comes after that of the parent."""
        parts = tuple(found)
        whole = parts if len(parts) > len(parent) and parts[: len(parent)] == parent else (*parent, *parts)
        return whole[: len(parent) + 1]

    def namespaceExists(self, namespace: Any) -> bool:
        return self._has_namespace(tuple(namespace))

    def _has_namespace(self, namespace: tuple[str, ...]) -> bool:
        try:
            self._catalog.load_namespace_properties(namespace)
        except NoSuchNamespaceError:
            return False
        return True

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        properties = self._catalog.load_namespace_properties(tuple(namespace))
        # SqlCatalog keeps this one so that there is a property.
        shown = {key: value for key, value in properties.items() if key != "exists"}
        return self.to_map({key: str(value) for key, value in shown.items()})

    def createNamespace(self, namespace: Any, metadata: Any) -> None:
        self._catalog.create_namespace(tuple(namespace), {str(key): str(metadata[key]) for key in metadata})

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        removed: set[str] = set()
        updates: dict[str, str] = {}
        for change in changes:
            key = change.property()
            if change.getClass().getSimpleName() == "SetProperty":
                updates[key] = change.value()
                removed.discard(key)
            else:
                removed.add(key)
                updates.pop(key, None)
        self._catalog.update_namespace_properties(tuple(namespace), removed, updates)

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        parts = tuple(namespace)
        if not self._has_namespace(parts):
            return False
        self._drop_namespace(parts, cascade=cascade)
        return True

    def _drop_namespace(self, namespace: tuple[str, ...], *, cascade: bool) -> None:
        if cascade:
            for child in self._catalog.list_namespaces(namespace):
                self._drop_namespace(self._child(namespace, child), cascade=True)
            for table in self._catalog.list_tables(namespace):
                self._catalog.drop_table(table)
        self._catalog.drop_namespace(namespace)

    # Tables

    def listTables(self, namespace: Any) -> Any:
        identifiers = java_class(self.jvm, f"{_CATALOG}.Identifier")
        found = sorted(tuple(each) for each in self._catalog.list_tables(tuple(namespace)))
        made = [identifiers.of(self.strings(each[:-1]), each[-1]) for each in found]
        return self.array(f"{_CATALOG}.Identifier", made)

    def tableExists(self, ident: Any) -> bool:
        try:
            self._load(name_parts(ident))
        except _MISSING:
            return False
        return True

    def loadTable(self, ident: Any, version: str | None, timestamp: int | None) -> Any:
        parts = name_parts(ident)
        try:
            table = self._load(parts)
        except _MISSING:
            *whose, what = parts
            if len(whose) < 2 or what.lower() not in METADATA_TABLES:
                raise NoSuchTableError(".".join(parts)) from None
            table = self._load(whose)
            return metadata_table(self.spark, at_version(table, _asked(version, timestamp)), self._whole(parts), what)
        asked = _asked(version, timestamp)
        if asked is None:
            return self._current(table, parts)
        return self._readable(at_version(table, asked), parts)

    def _load(self, parts: Sequence[str]) -> Table:
        if len(parts) < 2:
            raise NoSuchTableError(".".join(parts))
        try:
            return self._catalog.load_table(tuple(parts))
        except _MISSING as error:
            raise NoSuchTableError(".".join(parts)) from error

    def _whole(self, parts: Sequence[str]) -> str:
        return ".".join((self._name, *parts))

    def _readable(self, table: Table, parts: Sequence[str]) -> Any:
        name = self._whole(parts)
        described = describe(self.spark, table, name, self._nanoseconds, writable=False)
        read = ReadTable(self.spark, table, name, self._nanoseconds)
        return nested_class(self.jvm, "ReadTable")(read, described)

    def _current(self, table: Table, parts: Sequence[str]) -> Any:
        if self._nanoseconds != "error" and has_nanoseconds(table.schema()):
            # What Spark does not see it cannot write.
            return self._readable(table, parts)
        name = self._whole(parts)
        described = describe(self.spark, table, name, writable=True)
        return nested_class(self.jvm, "CurrentTable")(CurrentTable(self.spark, table, name), described)

    def createTable(self, ident: Any, columns: Any, partitions: Any, properties: Any) -> Any:
        parts = name_parts(ident)
        self._check_namespace(parts)
        table = wanted_table(columns, partitions, properties).create(self._catalog, tuple(parts))
        return self._current(table, parts)

    def stageTable(self, ident: Any, columns: Any, partitions: Any, properties: Any, how: str) -> Any:
        parts = name_parts(ident)
        self._check_namespace(parts)
        wanted = wanted_table(columns, partitions, properties)
        try:
            present: Table | None = self._load(parts)
        except _MISSING:
            present = None
        if present is None and how == "replace":
            raise NoSuchTableError(".".join(parts))
        if present is not None and how == "create":
            raise TableAlreadyExistsError(".".join(parts))
        if present is None:
            staged = wanted.staged(self._catalog, tuple(parts))
        else:
            staged = wanted.staged_replacement(present)
        name = self._whole(parts)
        described = describe(self.spark, staged.table, name, writable=True)
        return nested_class(self.jvm, "NewTable")(NewTable(self.spark, staged, name), described)

    def _check_namespace(self, parts: Sequence[str]) -> None:
        """Some catalogs create tables in namespaces that do not exist."""
        if not self._has_namespace(tuple(parts[:-1])):
            raise NoSuchNamespaceError(".".join(parts[:-1]))
        if parts[-1].lower() in METADATA_TABLES and self._is_table(parts[:-1]):
            message = f"{'.'.join(parts)} is the name of a metadata table of {'.'.join(parts[:-1])}; choose another one"
            raise ConfigurationError(message)

    def _is_table(self, parts: Sequence[str]) -> bool:
        try:
            self._load(parts)
        except _MISSING:
            return False
        return True

    def alterTable(self, ident: Any, changes: Any) -> Any:
        parts = name_parts(ident)
        table = self._load(parts)
        alter_table(table, list(changes))
        return self._current(table, parts)

    def dropTable(self, ident: Any) -> bool:
        try:
            self._catalog.drop_table(tuple(name_parts(ident)))
        except _MISSING:
            return False
        return True

    def purgeTable(self, ident: Any) -> bool:
        name = ".".join(name_parts(ident))
        message = (
            f"DROP TABLE {name} PURGE is refused, because nobody knows which of the files other tables and branches "
            f"still need; DROP TABLE {name} leaves the files where they are"
        )
        raise UnsupportedError(message)

    def renameTable(self, source: Any, target: Any) -> None:
        to = name_parts(target)
        if self._is_table(to):
            raise TableAlreadyExistsError(".".join(to))
        self._catalog.rename_table(tuple(name_parts(source)), tuple(to))

    # Procedures

    def listProcedures(self, namespace: Any) -> Any:
        identifiers = java_class(self.jvm, f"{_CATALOG}.Identifier")
        names = sorted(PROCEDURES) if list(namespace) in ([], [_SYSTEM]) else []
        made = [identifiers.of(self.strings([_SYSTEM]), name) for name in names]
        return self.array(f"{_CATALOG}.Identifier", made)

    def loadProcedure(self, ident: Any) -> Any:
        parts = name_parts(ident)
        if parts[:-1] != [_SYSTEM] or parts[-1].lower() not in PROCEDURES:
            known = ", ".join(f"{self._name}.{_SYSTEM}.{name}" for name in sorted(PROCEDURES))
            raise ConfigurationError(f"there is no procedure {self._whole(parts)}; there are {known}")
        return procedure(self.spark, self._name, self._catalog, parts[-1].lower())


def _asked(version: str | None, timestamp: int | None) -> Version | None:
    if timestamp is not None:
        return Version("moment", timestamp // 1000, "TIMESTAMP AS OF")
    if version is None:
        return None
    if version.lstrip("-").isdecimal():
        return Version("snapshot", int(version), "VERSION AS OF")
    return Version("name", version, "VERSION AS OF")
