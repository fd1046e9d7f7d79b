"""All files that the metadata of a table leads to, as json and fastavro read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import fastavro
from pyiceberg.table import Table

from support.iceberg_tables import local_path

__all__ = ["referenced_locations"]

_DELETED = 2


def referenced_locations(table: Table) -> Iterator[str]:
    """The locations of metadata files, manifest lists, manifests, live data and delete files of a local table."""
    metadata = json.loads(local_path(table.metadata_location).read_bytes())
    yield table.metadata_location
    yield from (entry["metadata-file"] for entry in metadata.get("metadata-log", ()))
    for kind in ("statistics", "partition-statistics"):
        yield from (file["statistics-path"] for file in metadata.get(kind) or ())
    lists = {snapshot["manifest-list"] for snapshot in metadata.get("snapshots", ())}
    yield from lists
    manifests = {line["manifest_path"] for each in lists for line in _records(each)}
    yield from manifests
    for manifest in manifests:
        yield from (entry["data_file"]["file_path"] for entry in _records(manifest) if entry["status"] != _DELETED)


def _records(location: str) -> list[dict[str, Any]]:
    with local_path(location).open("rb") as file:
        return [record for record in fastavro.reader(file) if isinstance(record, dict)]
