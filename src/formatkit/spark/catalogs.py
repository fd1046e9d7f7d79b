"""From what a user calls a table to its metadata file: catalogs, and where their settings come from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.exceptions import NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import StaticTable
from pyiceberg.utils.config import Config
from pyspark.sql import SparkSession

from formatkit.errors import ConfigurationError
from formatkit.integrations.pyiceberg.trust import guarded
from formatkit.scan import load_table
from formatkit.spark.options import CATALOG_PREFIX, SourceOptions
from pyspark_formatkit import DefaultSource

__all__ = ["PinnedTable", "catalogs_of", "pin_table", "register"]

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
    """

    metadata_location: str
    properties: Mapping[str, str] = field(repr=False)

    def load(self) -> StaticTable:
        return load_table(self.metadata_location, self.properties)


def register(spark: SparkSession) -> None:
    """Let ``spark.read.format("formatkit")`` know the catalogs in the configuration of the session.

    Spark shows a data source its options only. Settings are taken from ``spark.formatkit.catalog.<name>.<property>``,
    in the words of pyiceberg; and from ``spark.sql.catalog.<name>``, where that is a catalog of Iceberg for REST, Hive
    or Glue. Call it again after a change.

    Args:
        spark: A session, classic or Connect.
    """
    found = catalogs_of(dict(spark.conf.getAll))
    source = type(DefaultSource.__name__, (DefaultSource,), {"catalogs": found})
    spark.dataSource.register(source)


def catalogs_of(configuration: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The catalogs in a configuration of Spark, by name, with their properties."""
    shared = _below(configuration, _SPARK_PREFIX)
    found = {name: _from_iceberg(settings) for name, settings in shared.items() if _is_shared(settings)}
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
    if "/" in options.path or "\\" in options.path:
        return _at(options)
    name, identifier = _catalog_and_identifier(options, catalogs)
    with closing(_catalog(name, {**catalogs.get(name, {}), **options.catalog_properties})) as catalog:
        try:
            table = guarded(catalog).load_table(identifier)
        except (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError) as error:
            message = f"catalog {name!r} has no table {identifier!r}: {error}"
            raise ConfigurationError(message, catalog=name, table=identifier) from error
    return PinnedTable(table.metadata_location, dict(table.io.properties))


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


def _catalog_and_identifier(options: SourceOptions, catalogs: Catalogs) -> tuple[str, str]:
    if options.catalog is not None:
        return options.catalog, options.path
    known = {*catalogs, *list_catalogs()}
    first, _, rest = options.path.partition(".")
    if first in known and "." in rest:
        return first, rest
    if options.catalog_properties or len(known) != 1:
        return Config().get_default_catalog_name(), options.path
    return known.pop(), options.path


def _catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    if not properties and name not in list_catalogs():
        message = (
            f"nothing is known about catalog {name!r}; give options {CATALOG_PREFIX}type, {CATALOG_PREFIX}uri and so "
            f"on, set {_OWN_PREFIX}{name}.uri and so on and call formatkit.spark.register(spark), or configure "
            "pyiceberg (.pyiceberg.yaml, PYICEBERG_CATALOG__…)"
        )
        raise ConfigurationError(message, catalog=name)
    try:
        return load_catalog(name, **properties)
    except (ValueError, ImportError) as error:
        raise ConfigurationError(f"catalog {name!r} cannot be used: {error}", catalog=name) from error
