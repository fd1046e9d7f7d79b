"""Finds what a user means by TABLE: a table of a catalog, a table's metadata file, or one data file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from formatkit.errors import ConfigurationError, FormatkitError

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["CatalogAccess", "assignments", "is_location", "load_table", "opened_table"]


@dataclass(frozen=True, kw_only=True)
class CatalogAccess:
    """Which catalog, and the properties that go beyond pyiceberg's configuration."""

    name: str | None
    uri: str | None
    warehouse: str | None
    assignments: Sequence[str]

    @property
    def properties(self) -> dict[str, str]:
        """All properties by name."""
        found = assignments("--property", self.assignments)
        if self.uri is not None:
            found["uri"] = self.uri
        if self.warehouse is not None:
            found["warehouse"] = self.warehouse
        return found


def assignments(option: str, texts: Sequence[str]) -> dict[str, str]:
    """What was given as KEY=VALUE to an option that may be repeated."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ConfigurationError(f"{option} takes KEY=VALUE, not {text!r}")
        found[key] = value
    return found


def is_location(target: str) -> bool:
    """Whether TABLE names a file rather than a table in a catalog."""
    return "/" in target or os.sep in target or target.endswith(".metadata.json") or os.path.lexists(target)


def load_table(target: str, access: CatalogAccess) -> Table | None:
    """The table, or None if the target is the location of a data file."""
    if not is_location(target):
        return _from_catalog(target, access)
    if target.endswith(".metadata.json"):
        return _from_metadata(target, access)
    return None


@contextmanager
def opened_table(target: str, access: CatalogAccess) -> Iterator[Table]:
    """A table that can be changed; its catalog stays open meanwhile."""
    if is_location(target):
        raise ConfigurationError(
            f"{target} is a file; a table that is to be changed must be named as in its catalog, "
            "catalog.namespace.table"
        )
    table = _from_catalog(target, access)
    with table.catalog:
        yield table


def _from_metadata(location: str, access: CatalogAccess) -> Table:
    import formatkit

    properties = access.properties
    try:
        return formatkit.load_table(location, properties)
    except FormatkitError:
        raise
    except Exception as error:
        raise _cannot_open(f"the table metadata {location}", error) from error


def _from_catalog(target: str, access: CatalogAccess) -> Table:
    from formatkit.integrations.pyiceberg.trust import load_guarded_catalog

    properties = access.properties
    name, identifier = access.name, tuple(target.split("."))
    if name is None and not properties and len(identifier) > 2:
        name, identifier = identifier[0], identifier[1:]
    if len(identifier) < 2:
        raise ConfigurationError(
            f"{target!r} is neither a file nor the name of a table; a table is catalog.namespace.table, "
            "or namespace.table with --catalog NAME"
        )
    try:
        with load_guarded_catalog(name, properties) as catalog:
            return catalog.load_table(identifier)
    except FormatkitError:
        raise
    except Exception as error:
        where = f"catalog {name!r}" if name is not None else "the default catalog"
        raise _cannot_open(f"table {'.'.join(identifier)} of {where}", error) from error


def _cannot_open(what: str, error: Exception) -> FormatkitError:
    # pyiceberg's errors have no common base, and those of its storage clients neither.
    return ConfigurationError(f"cannot open {what}: {type(error).__name__}: {error}")
