"""From what a user calls a table to its metadata file: catalogs, and where their settings come from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog, list_catalogs
from pyiceberg.exceptions import NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import StaticTable, Table
from pyiceberg.utils.config import Config
from pyspark.sql import SparkSession

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.integrations.pyiceberg.trust import load_guarded_catalog
from formatkit.scan import load_table
from formatkit.spark.interpreter import check_interpreter
from formatkit.spark.java import is_since
from formatkit.spark.options import CATALOG_PREFIX, SourceOptions
from formatkit.spark.session import configuration_of
from formatkit.spark.versions import check_data_sources, obstacle

__all__ = [
    "CATALOG_CLASS",
    "Catalogs",
    "PinnedTable",
    "catalog_of",
    "catalogs_of",
    "live_table",
    "pin_table",
    "register",
    "shown_name",
]

CATALOG_CLASS = "org.formatkit.spark.FormatkitCatalog"
"""What `spark.sql.catalog.<name>` is set to, so that SQL asks formatkit."""

_OWN_PREFIX = "spark.formatkit.catalog."
_SPARK_PREFIX = "spark.sql.catalog."
_ICEBERG_CATALOGS = ("org.apache.iceberg.spark.SparkCatalog", "org.apache.iceberg.spark.SparkSessionCatalog")
_SHARED_TYPES = ("rest", "hive", "glue")
# Names of Java classes, and what only they understand.
_JAVA_ONLY = ("catalog-impl", "io-impl", "metrics-reporter-impl", "cache-enabled", "default-namespace")
Catalogs = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table as it was at one moment. Small, and survives pickling.

    Attributes:
        metadata_location: Its metadata file.
        properties: For its storage.
        name: How plans call it, if it was found by a name.
    """

    metadata_location: str
    properties: Mapping[str, str] = field(repr=False)
    name: str | None = None

    def load(self) -> StaticTable:
        return load_table(self.metadata_location, self.properties)


def shown_name(table: Table) -> str:
    """How plans and Spark's pages call a table: as SQL does, or by folder and version if it is a metadata file."""
    if isinstance(table, StaticTable):
        folder = table.location().rstrip("/").rpartition("/")[2]
        version = table.metadata_location.rpartition("/")[2].partition(".")[0].partition("-")[0]
        return f"{folder}@{version}"
    return ".".join((table.catalog.name, *table.name()))


def register(spark: SparkSession, **catalogs: Catalog) -> None:
    """Let the session know catalogs: ``spark.read.format("formatkit")`` and, on classic sessions, SQL.

    Settings are taken from ``spark.formatkit.catalog.<name>.<property>``, in the words of pyiceberg; and from
    ``spark.sql.catalog.<name>``, where that is ``org.formatkit.spark.FormatkitCatalog``, or a catalog of Iceberg for
    REST, Hive or Glue, to which SQL is left then. Call it again after a change.

    Args:
        spark: A session, classic or Connect.
        catalogs: Catalogs of pyiceberg for SQL alone, by the names that SQL is to have for them.

    Raises:
        UnsupportedError: This PySpark has no data sources of Python; or a SQL catalog was asked for by name, and this
            session can have none.
        ConfigurationError: The name belongs to a catalog of another kind, or workers cannot run formatkit.
    """
    check_data_sources()
    check_interpreter(spark)
    configuration = configuration_of(spark)
    found = catalogs_of(configuration)
    _register_source(spark, found)
    _register_sql(spark, configuration, found, catalogs)


def _register_source(spark: SparkSession, found: Catalogs) -> None:
    from pyspark_formatkit import DefaultSource

    if is_since(spark, 4, 1):
        spark.dataSource.register(type(DefaultSource.__name__, (DefaultSource,), {"catalogs": found}))
    elif found:
        message = (
            f"Spark {spark.version} lets no data source be replaced, so that the format formatkit does not know "
            f"the catalogs of the session ({', '.join(sorted(found))}); give it their properties as options "
            "catalog.<property>, or use formatkit.spark.read and formatkit.spark.write, which know them"
        )
        warnings.warn(message, stacklevel=3)


def _register_sql(
    spark: SparkSession, configuration: Mapping[str, str], found: Catalogs, given: Mapping[str, Catalog]
) -> None:
    classes = {name: settings.get("") for name, settings in _below(configuration, _SPARK_PREFIX).items()}
    asked = {*given, *(name for name, kind in classes.items() if kind == CATALOG_CLASS)}
    reason = obstacle(spark)
    if reason is not None:
        if asked:
            message = (
                f"there can be no SQL catalog {', '.join(sorted(asked))} ({reason}); read with "
                "formatkit.spark.read(spark, table), and write and merge with formatkit.spark.write(df, table, mode=…)"
            )
            raise UnsupportedError(message)
        return
    from formatkit.spark.catalog.registration import is_registered, register_sql_catalogs

    # What belongs to another catalog of SQL stays with it.
    wanted = [name for name in found if classes.get(name) in (None, CATALOG_CLASS)]
    names = {*wanted, *asked} - set(given)
    # Those that were given as objects have no settings, and stay.
    known = {name for name in names if name in found or name in list_catalogs() or not is_registered(spark, name)}
    made = {name: _catalog(name, found.get(name, {})) for name in sorted(known)}
    if made or given:
        register_sql_catalogs(spark, {**made, **given})


def catalogs_of(configuration: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The catalogs in a configuration of Spark, by name, with their properties."""
    shared = _below(configuration, _SPARK_PREFIX)
    found = {name: _from_iceberg(settings) for name, settings in shared.items() if _is_shared(settings)}
    found |= {
        name: {key: value for key, value in settings.items() if key}
        for name, settings in shared.items()
        if settings.get("") == CATALOG_CLASS and len(settings) > 1
    }
    for name, settings in _below(configuration, _OWN_PREFIX).items():
        found[name] = {**found.get(name, {}), **settings}
    return found


def _below(configuration: Mapping[str, str], prefix: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for key, value in configuration.items():
        if key.startswith(prefix):
            name, _, setting = key.removeprefix(prefix).partition(".")
            found.setdefault(name, {})[setting] = value
    return found


def _is_shared(settings: Mapping[str, str]) -> bool:
    # What stands at the catalog's own name is its class.
    return settings.get("") in _ICEBERG_CATALOGS and settings.get("type", "").lower() in _SHARED_TYPES


def _from_iceberg(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key and key not in _JAVA_ONLY}


def pin_table(options: SourceOptions, catalogs: Catalogs) -> PinnedTable:
    """Find the table that a user means, as it is now. A path has a slash in it; anything else is a name in a catalog.

    Args:
        options: What the user asks for.
        catalogs: What is known beside pyiceberg's own configuration.

    Raises:
        ConfigurationError: There is no such table, or no such catalog.
    """
    if _is_location(options.path):
        return _at(options)
    table = live_table(options.path, options.catalog, options.catalog_properties, catalogs)
    with closing(table.catalog):
        return PinnedTable(table.metadata_location, dict(table.io.properties), shown_name(table))


def live_table(path: str, catalog: str | None, properties: Mapping[str, str], catalogs: Catalogs) -> Table:
    """The table of a catalog that a user means, which can be refreshed and committed to.

    Args:
        path: Its name.
        catalog: The catalog's name, if it is said apart.
        properties: Of the catalog, as the user gives them.
        catalogs: What is known beside pyiceberg's own configuration.

    Raises:
        ConfigurationError: There is no such table, or no such catalog.
    """
    if _is_location(path):
        message = f"{path!r} is a metadata file, which never changes; name a table in a catalog (db.table)"
        raise ConfigurationError(message, location=path)
    name, found, identifier = catalog_of(path, catalogs, catalog=catalog, properties=properties)
    try:
        return found.load_table(identifier)
    except (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError) as error:
        found.close()
        message = f"catalog {name!r} has no table {identifier!r}: {error}"
        raise ConfigurationError(message, catalog=name, table=identifier) from error


def _is_location(path: str) -> bool:
    return "/" in path or "\\" in path


def catalog_of(
    path: str, catalogs: Catalogs, *, catalog: str | None, properties: Mapping[str, str]
) -> tuple[str, Catalog, str]:
    """The catalog that a table's name means: its name, itself, and the name of the table in it.

    Args:
        path: ``db.table``, or ``catalog.db.table``.
        catalogs: What is known beside pyiceberg's own configuration.
        catalog: The catalog's name, if `path` does not begin with it.
        properties: Of the catalog, on top of the others.

    Raises:
        ConfigurationError: Nothing is known about the catalog.
    """
    name, identifier = _catalog_and_identifier(path, catalogs, catalog, properties)
    return name, _catalog(name, {**catalogs.get(name, {}), **properties}), identifier


def _at(options: SourceOptions) -> PinnedTable:
    if not options.path.endswith((".json", ".json.gz")):
        message = (
            f"{options.path!r} is the location of no metadata file; load() takes that (….metadata.json), or the name "
            "of a table in a catalog (db.table)"
        )
        raise ConfigurationError(message, location=options.path)
    if options.catalog is not None:
        message = f"{options.path!r} is found without a catalog; leave out the option catalog"
        raise ConfigurationError(message)
    return PinnedTable(options.path, options.catalog_properties)


def _catalog_and_identifier(
    path: str, catalogs: Catalogs, catalog: str | None, properties: Mapping[str, str]
) -> tuple[str, str]:
    if catalog is not None:
        return catalog, path
    known = {*catalogs, *list_catalogs()}
    first, _, rest = path.partition(".")
    if first in known and "." in rest:
        return first, rest
    if properties or len(known) != 1:
        return Config().get_default_catalog_name(), path
    return known.pop(), path


def _catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    if not properties and name not in list_catalogs():
        message = (
            f"nothing is known about catalog {name!r}; give options {CATALOG_PREFIX}type, {CATALOG_PREFIX}uri and so "
            f"on, set {_OWN_PREFIX}{name}.uri and so on and call formatkit.spark.register(spark), or configure "
            "pyiceberg (.pyiceberg.yaml, PYICEBERG_CATALOG__…)"
        )
        raise ConfigurationError(message, catalog=name)
    try:
        return load_guarded_catalog(name, properties)
    except (ValueError, ImportError) as error:
        raise ConfigurationError(f"catalog {name!r} cannot be used: {error}", catalog=name) from error
