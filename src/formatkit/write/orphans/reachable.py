"""Everything that the metadata of tables refers to, by the names of the files.

Writers give every file a name of its own, a UUID in most. So a file is one that a table refers to if its name is, and
the many spellings of a location (schemes, hosts, links, percent signs) cannot hide that.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from formatkit.errors import ConfigurationError, CorruptFileError, FileMissingError, UnsupportedError
from formatkit.scan.manifests import Manifest, read_manifest_list, read_manifests
from formatkit.scan.metadata_files import decompressed, load

__all__ = ["References", "full_metadata", "name_of", "parse_metadata"]

_NAME = re.compile(r"[^/\\]*$")
_QUERY_OR_FRAGMENT = re.compile(r"[?#].*$", re.DOTALL)


def full_metadata(table: Table) -> dict[str, Any]:
    """The metadata of a table as its metadata file has it: catalogs may leave out snapshots that no branch leads to.

    Raises:
        ConfigurationError: The catalog does not say where the metadata file is, or names that of another table.
        CorruptFileError, StorageError: It cannot be read.
    """
    name, location = ".".join(table.name()), table.metadata_location
    if not location:
        raise ConfigurationError(
            f"the catalog does not say where the metadata file of {name} is, so it cannot be told what the table "
            "refers to; no file can be deleted"
        )
    metadata = parse_metadata(load(location, table.io), location)
    if metadata is None or not isinstance(metadata.get("location"), str):
        raise CorruptFileError(f"{location} is not the metadata of a table", location=location)
    if metadata.get("table-uuid", str(table.metadata.table_uuid)) != str(table.metadata.table_uuid):
        raise ConfigurationError(
            f"{location} is the metadata of table {metadata['table-uuid']}, where the catalog says that {name} is "
            f"{table.metadata.table_uuid}"
        )
    return metadata


def parse_metadata(content: bytes, location: str) -> dict[str, Any] | None:
    """The JSON object in a metadata file; None if it is damaged, as killed writers leave it.

    Raises:
        CorruptFileError: It is larger once decompressed than metadata can be.
    """
    try:
        metadata = json.loads(decompressed(content))
    except CorruptFileError as error:
        raise CorruptFileError(f"{location}: {error}", location=location) from error
    except (ValueError, OSError, EOFError, RecursionError, zlib.error):
        return None
    return metadata if isinstance(metadata, dict) else None


def name_of(location: str) -> str:
    """The name of a file, in the spelling to compare."""
    found = _NAME.search(location)
    return found[0].lower() if found else ""


class References:
    """The names of all files that metadata leads to: metadata files, manifests, data and delete files, statistics.

    Args:
        beside: Others that count as well. What they have read is not read again, so its files may be in either.

    Attributes:
        names: The names, in the spelling to compare.
        locations: The locations, as metadata spells them.
        read: Manifest lists and manifests whose files are all known.
    """

    def __init__(self, beside: References | None = None) -> None:
        self.names: set[str] = set()
        self.locations: set[str] = set()
        self.read: set[str] = set() if beside is None else beside.read

    def __contains__(self, name: str) -> bool:
        return name_of(name) in self.names

    def add_locations(self, locations: Iterable[str]) -> None:
        """Add single files."""
        for location in locations:
            self.locations.add(location)
            for spelled in (location, unquote(location), _QUERY_OR_FRAGMENT.sub("", location)):
                self.names.add(name_of(spelled))

    def add(
        self, metadata: dict[str, Any], io: FileIO, *, more_lists: Iterable[str] = (), missing_ok: bool = False
    ) -> None:
        """Add what a table refers to, in each of its snapshots.

        Args:
            metadata: The contents of its metadata file. Each string in it counts as the location of a file.
            io: Where its manifests are.
            more_lists: Manifest lists of further snapshots.
            missing_ok: Whether manifest lists and manifests may be missing.

        Raises:
            CorruptFileError, StorageError: A manifest list or a manifest cannot be read.
            UnsupportedError: A snapshot has no manifest list, which version 1 allows.
        """
        self.add_locations(_strings(metadata))
        lists = [*map(_manifest_list, metadata.get("snapshots") or ()), *more_lists]
        new_lists = [location for location in dict.fromkeys(lists) if location not in self.read]
        self.add_locations(new_lists)
        manifests: dict[str, Manifest] = {}
        for location in new_lists:
            found = _read_list(location, io, missing_ok=missing_ok)
            manifests.update((each.location, each) for each in found if each.location not in self.read)
        self.add_locations(manifests)
        if not missing_ok:
            self.add_locations(entry.location for entry in read_manifests(list(manifests.values()), io, metrics=False))
            # Only now: after a failure they have to be read again.
            self.read.update(new_lists, manifests)
            return
        for location, manifest in manifests.items():
            try:
                self.add_locations([entry.location for entry in read_manifests([manifest], io, metrics=False)])
                self.read.add(location)
            except FileMissingError:
                continue


def _manifest_list(snapshot: dict[str, Any]) -> str:
    location = snapshot.get("manifest-list")
    if not isinstance(location, str):
        raise UnsupportedError(
            f"snapshot {snapshot.get('snapshot-id')} names its manifests itself, which version 1 allows; what such a "
            "table refers to cannot be read, so no file can be deleted"
        )
    return location


def _read_list(location: str, io: FileIO, *, missing_ok: bool) -> list[Manifest]:
    try:
        return read_manifest_list(location, io)
    except FileMissingError:
        if missing_ok:
            return []
        raise


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value: what a later version of the spec refers to counts as well."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
