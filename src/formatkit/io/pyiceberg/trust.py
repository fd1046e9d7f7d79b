"""Decides whose word counts when properties name classes to import, or say how a storage is reached.

pyiceberg merges the properties of a table into those of its catalog and imports whatever class they name. Whoever can
write a table, or hands out a metadata file, would run code in every process that opens it, and could send the
credentials of the caller to a server of his own. So properties of a table may name only the classes that are listed
here, and set nothing of a storage. The caller's arguments and the catalog's configuration may name any class.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyiceberg.io import ARROW_FILE_IO, FSSPEC_FILE_IO, PY_IO_IMPL, FileIO, load_file_io

from formatkit.errors import ConfigurationError, printable

if TYPE_CHECKING:
    from pyiceberg.table.locations import LocationProvider

__all__ = [
    "BEHIND_RUNTIME",
    "LOCATION_PROVIDER",
    "import_named",
    "load_for_table",
    "load_provider_for_table",
    "loaded_file_io_class",
    "names_code",
    "refuse_code",
    "settings_of_table",
]

LOCATION_PROVIDER = "write.py-location-provider.impl"
BEHIND_RUNTIME = "formatkit.py-io-impl"

_FILE_IOS = frozenset({ARROW_FILE_IO, FSSPEC_FILE_IO, "formatkit.io.RuntimeFileIO"})
_LOCATION_PROVIDERS = frozenset(
    {"pyiceberg.table.locations.SimpleLocationProvider", "pyiceberg.table.locations.ObjectStoreLocationProvider"}
)
_ALLOWED = {PY_IO_IMPL: _FILE_IOS, BEHIND_RUNTIME: _FILE_IOS, LOCATION_PROVIDER: _LOCATION_PROVIDERS}

# `py-io-impl`, `write.py-location-provider.impl`, `s3.retry-strategy-impl`, and what is to come of this kind.
_CODE = re.compile(r"(^|[.\-_])(impl|implementation|class|classname|class-name|factory|module|plugin)$", re.IGNORECASE)
_OWN = "formatkit."
_STORAGES = ("s3.", "client.", "adls.", "gcs.", "hdfs.", "hf.", "oss.")
_log = logging.getLogger(__name__)


def names_code(key: str) -> bool:
    """Whether the value of a property is the name of something to import."""
    return _CODE.search(key) is not None


def settings_of_table(properties: Mapping[str, str], trusted: Mapping[str, Any], origin: str) -> dict[str, str]:
    """What the properties of a table may say to a `FileIO`: which of the listed classes it is, and formatkit's own.

    Args:
        properties: Those of the table's metadata.
        trusted: The caller's or the catalog's. They win, and classes that they name may be named by the table too.
        origin: Where the properties come from, for messages.

    Raises:
        ConfigurationError: They name a class that is neither listed nor named by `trusted`.
    """
    said = {}
    ignored = []
    for key, value in properties.items():
        if key in trusted:
            continue
        if key == PY_IO_IMPL or key.startswith(_OWN):
            said[key] = value
        elif key.startswith((*_STORAGES, "py-")):
            ignored.append(key)
    for key in (*said, *ignored):
        if names_code(key):
            _check(key, properties[key], trusted, origin)
    if ignored:
        _log.warning(
            "%s sets %s; how a storage is reached is for the caller or the catalog's configuration to say, so this is "
            "left out: pass these properties yourself if you mean them",
            printable(origin),
            printable(", ".join(sorted(ignored))),
        )
    return said


def load_for_table(trusted: Mapping[str, Any], properties: Mapping[str, str], location: str | None) -> FileIO:
    """The `FileIO` of a table: pyiceberg's `load_file_io`, with nothing taken from the table that it may not say.

    Args:
        trusted: The caller's properties or the catalog's.
        properties: Those of the table's metadata.
        location: Of its metadata file.

    Raises:
        ConfigurationError: The table names a class that is not believed, or a class cannot be loaded.
    """
    merged = {**settings_of_table(properties, trusted, f"the metadata file {location}"), **trusted}
    import_named(merged)
    try:
        return load_file_io(merged, location)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"there is no FileIO for {location}: {type(error).__name__}: {error}") from error


def load_provider_for_table(
    location: str, properties: Mapping[str, str], trusted: Mapping[str, Any], origin: str
) -> LocationProvider:
    """The location provider of a table: pyiceberg's `load_location_provider`, for classes that are believed.

    Raises:
        ConfigurationError: The table names a class that is neither listed nor named by `trusted`, or that cannot be
            loaded.
    """
    from pyiceberg.table.locations import load_location_provider  # tables take long to import, and files need none

    if name := properties.get(LOCATION_PROVIDER):
        _check(LOCATION_PROVIDER, name, trusted, origin)
    try:
        return load_location_provider(location, dict(properties))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"the table's properties do not say where data files go: {error}") from error


def _check(key: str, value: str, trusted: Mapping[str, Any], origin: str) -> None:
    if value in _ALLOWED.get(key, ()) or trusted.get(key) == value:
        return
    listed = f"A table may name only {', '.join(sorted(_ALLOWED[key]))}. " if key in _ALLOWED else ""
    raise ConfigurationError(
        f"{origin} sets {key!r} to {value!r}, and a table cannot be believed when it names code to import. {listed}"
        "If you mean that class, pass the property yourself or set it in the catalog's configuration; else remove it "
        "from the table",
        property=key,
        value=value,
    )


def refuse_code(properties: Mapping[str, Any], trusted: Mapping[str, Any], origin: str) -> None:
    """Raise `ConfigurationError` where properties name code that neither is listed nor stands in `trusted`, too."""
    for key, value in properties.items():
        if isinstance(value, Mapping):
            inner = trusted.get(key)
            below = {f"{key}.{name}": each for name, each in inner.items()} if isinstance(inner, Mapping) else {}
            refuse_code({f"{key}.{name}": each for name, each in value.items()}, below, origin)
        elif names_code(key):
            _check(key, value, trusted, origin)


def import_named(properties: Mapping[str, Any]) -> None:
    """Import the class that a `RuntimeFileIO` with these properties, which are believed, stands before."""
    if isinstance(name := properties.get(BEHIND_RUNTIME), str) and name not in _FILE_IOS:
        try:
            import_module(name.rpartition(".")[0])
        except (ImportError, ValueError) as error:
            raise ConfigurationError(f"property {BEHIND_RUNTIME!r} is {name!r}: {error}") from error


def loaded_file_io_class(name: str) -> type[FileIO] | None:
    """The class of this name, if it is listed, or if the program itself has imported it and it is a `FileIO`.

    Nothing but listed classes is imported here: a `RuntimeFileIO` that pyiceberg makes cannot tell what its properties
    have from the catalog, and what from the table.
    """
    module, _, attribute = name.rpartition(".")
    if name in _FILE_IOS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module(module)
    found = getattr(sys.modules.get(module), attribute, None)
    return found if isinstance(found, type) and issubclass(found, FileIO) else None
