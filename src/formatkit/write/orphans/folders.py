"""The folders of tables: which are a table's own, and how its files lie in them."""

from __future__ import annotations

import base64
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus, unquote

import mmh3

from formatkit.errors import ConfigurationError
from formatkit.io import local_path
from formatkit.scan.deletes.locations import canonical_location

__all__ = ["OwnFolders", "claimed_folders", "is_inside", "place"]

_DATA_PATHS = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
_METADATA_PATH = "write.metadata.path"
_SCHEMES = {"gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
_SCHEMES_OF_ONE_STORAGE = ("hdfs", "viewfs")
_BINARY_HASH = re.compile(r"[01]{4}/[01]{4}/[01]{4}(?:/[01]{8})?", re.ASCII)
_UNPLAIN = re.compile(r"[\x00-\x1f\x7f#?\\]|^\s|\s$")


def place(location: str) -> str:
    """The one spelling that stands for a folder or file: the real path of a local one, else scheme, host and path."""
    try:
        path = local_path(location)
    except ConfigurationError:  # a file of another host
        return location
    if path is not None:
        return os.path.realpath(path)
    scheme, separator, rest = canonical_location(location).partition("://")
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
    if scheme in _SCHEMES_OF_ONE_STORAGE:
        rest = "/" + rest.partition("/")[2]
    return f"{scheme}{separator}{rest}".rstrip("/")


def is_inside(spelled: str, folder: str) -> bool:
    """Whether a place is in a folder, at whatever depth."""
    return spelled.startswith(folder.rstrip("/") + "/")


def claimed_folders(metadata: Mapping[str, Any]) -> Iterator[str]:
    """The places where a table may have files: its location, and the paths that its properties name."""
    properties = metadata.get("properties") or {}
    for location in (metadata.get("location"), *(properties.get(key) for key in (*_DATA_PATHS, _METADATA_PATH))):
        if isinstance(location, str) and location:
            yield place(location)


class OwnFolders:
    """The folders that a table's writers use.

    Args:
        metadata: The table's metadata, as JSON has it.

    Raises:
        ConfigurationError: The table's location is a whole storage, or leads through `.` or `..`.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        location = str(metadata["location"])
        _check_folder(location)
        properties = metadata.get("properties") or {}
        root = place(location)
        self.roots = {root: location}
        self._data = [f"{root}/data"]
        self._metadata = [f"{root}/metadata"]
        self.metadata_location = str(properties.get(_METADATA_PATH) or f"{location.rstrip('/')}/metadata").rstrip("/")
        for key, folders in (*((key, self._data) for key in _DATA_PATHS), (_METADATA_PATH, self._metadata)):
            path = properties.get(key)
            if path and _problem_of(path) is None:
                folders.append(place(path))
                self.roots[place(path)] = path
        # Java's object store layout puts the names of namespace and table behind the hash.
        self._context = "/".join(root.split("/")[-2:])
        self._partitions = _partition_names(metadata)

    def to_list(self) -> list[str]:
        """The locations of all folders that are not inside of another."""
        return [
            spelled for root, spelled in self.roots.items() if not any(is_inside(root, other) for other in self.roots)
        ]

    def scope(self, location: str) -> str:
        """The place of a folder of the table.

        Raises:
            ConfigurationError: The location is none.
        """
        _check_folder(location)
        asked = place(location)
        if not any(asked == root or is_inside(asked, root) for root in self.roots):
            raise ConfigurationError(
                f"{location} is not a folder of the table, whose folders are {', '.join(self.roots.values())}; "
                "give one of them or a folder inside"
            )
        return asked

    def is_data_folder(self, folder: str, name: str) -> bool:
        """Whether a writer may have put a data file of this name into a folder."""
        return any(
            folder == data or (is_inside(folder, data) and self._is_layout(folder[len(data) + 1 :], name))
            for data in self._data
        )

    def is_metadata_folder(self, folder: str) -> bool:
        """Whether writers put the table's metadata into a folder."""
        return folder in self._metadata

    def _is_layout(self, path: str, name: str) -> bool:
        if _UNPLAIN.search(path):
            return False
        if self._is_partition(path):
            return True
        binary = _BINARY_HASH.match(path)
        if binary is not None:
            rest = path[binary.end() :]
        else:
            first, slash, rest = path.partition("/")
            behind = (slash + rest).removeprefix(f"/{self._context}").removeprefix("/")
            if first not in _older_hashes(f"{behind}/{name}" if behind else name):
                return False
            rest = slash + rest
        rest = rest.removeprefix(f"/{self._context}")
        return not rest or (rest.startswith("/") and self._is_partition(rest[1:]))

    def _is_partition(self, path: str) -> bool:
        folders = path.split("/")
        return any(
            len(folders) == len(names)
            and all(
                folder.partition("=")[0] in spellings and "=" in folder
                for folder, spellings in zip(folders, names, strict=True)
            )
            for names in self._partitions
        )


def _partition_names(metadata: Mapping[str, Any]) -> list[list[set[str]]]:
    """Of each partition spec: how the names of its fields are spelled in paths."""
    specs = [spec.get("fields") or () for spec in metadata.get("partition-specs") or ()]
    if metadata.get("partition-spec"):
        specs.append(metadata["partition-spec"])
    return [[{field["name"], quote_plus(field["name"], safe="")} for field in fields] for fields in specs if fields]


def _older_hashes(name: str) -> Sequence[str]:
    """The folders that the object store layout of Iceberg for Java before 1.7 has for a file."""
    value = mmh3.hash(name.encode(), signed=False)
    encoded = base64.urlsafe_b64encode(struct.pack("<I", value)).decode().rstrip("=")
    return encoded, f"{(value & 0x7FFFFFFF) % 0x7FFFFFFF:08x}"


def _check_folder(location: str) -> None:
    problem = _problem_of(location)
    if problem is not None:
        raise ConfigurationError(f"{location!r} {problem}; give the folder of one table")


def _problem_of(location: str) -> str | None:
    """Why a location cannot be the folder of one table."""
    try:
        path = local_path(location)
    except ConfigurationError:
        return "names another host's file system"
    if path is None:
        _, _, path = location.partition("://")[2].partition("/")
    folders = path.removeprefix("/").removesuffix("/").split("/")
    if any(unquote(folder) in (".", "..") for folder in folders):
        return "leads through . or .."
    if not path.strip("/"):
        return "is a whole storage"
    if "" in folders:
        return "has an empty name between two slashes"
    if _UNPLAIN.search(location):
        return "has characters that storage clients take for something else"
    return None
