"""Where the data files of a table are put."""

from __future__ import annotations

import itertools
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote_plus

from pyiceberg.partitioning import PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from formatkit.io.pyiceberg.trust import load_provider_for_table

__all__ = ["DataLocations", "partition_path"]

_LONGEST_FOLDER_NAME = 200
"""File systems refuse names of more than 255 bytes; values may be longer, and a folder's name has no meaning."""


class DataLocations:
    """Names new data files: one name each, wherever the table's location provider puts them.

    Args:
        location: The table's location.
        properties: The table's properties (`write.data.path`, `write.object-storage.enabled`, …).
        spec: The partition spec.
        schema: The table's schema.
        ending: How the names end.
        task: The number of the task that writes, for names that tell where a file came from.
        prefix: How all names begin, if not with `task` and a UUID; no other writer may ever have the same one.
        trusted: The caller's properties and the catalog's, which may name any location provider.

    Raises:
        ConfigurationError: The table's location provider cannot be loaded, or is not believed.
    """

    def __init__(
        self,
        location: str,
        properties: Mapping[str, str],
        spec: PartitionSpec,
        schema: Schema,
        *,
        ending: str,
        task: int = 0,
        prefix: str | None = None,
        trusted: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._provider = load_provider_for_table(location, properties, trusted, f"the table at {location}")
        self._spec = spec
        self._schema = schema
        self._ending = ending
        self._prefix = prefix or f"{task:05d}-{uuid.uuid4()}"
        self._numbers = itertools.count(1)

    def new(self, partition: Record) -> str:
        """A location that no other file has."""
        name = f"{self._prefix}-{next(self._numbers):05d}{self._ending}"
        key = _Key([], self._spec, self._schema, partition) if self._spec.fields else None
        return self._provider.new_data_location(name, key)


@dataclass(frozen=True)
class _Key(PartitionKey):
    """A partition for location providers. pyiceberg's own refuses two fields of one column and values out of reach."""

    record: Record

    @property
    def partition(self) -> Record:
        return self.record

    def to_path(self) -> str:
        return partition_path(self.partition_spec, self.schema, self.record)


def partition_path(spec: PartitionSpec, schema: Schema, partition: Record) -> str:
    """The folders of a partition, as ``name=value/name=value`` with what paths cannot hold percent-encoded."""
    types = spec.partition_type(schema).fields
    folders = []
    for position, field in enumerate(spec.fields):
        value = partition[position]
        try:
            text = field.transform.to_human_string(types[position].field_type, value)
        except (OverflowError, ValueError):
            text = str(value)  # a moment outside of the years 1 to 9999, which Python's dates are for
        folders.append(_shortened(f"{quote_plus(field.name, safe='')}={quote_plus(text, safe='')}"))
    return "/".join(folders)


def _shortened(name: str) -> str:
    if len(name) <= _LONGEST_FOLDER_NAME:
        return name
    return f"{name[: _LONGEST_FOLDER_NAME - 9]}-{zlib.crc32(name.encode()):08x}"
