"""Loads tables from their metadata files, with the types that pyiceberg cannot load."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import index_by_id
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from formatkit.contract.schema_json import schema_from_json
from formatkit.contract.variant import VariantType
from formatkit.errors import CorruptFileError, SchemaResolutionError, UnsupportedError
from formatkit.io import open_source
from formatkit.io.pyiceberg.trust import load_for_table

__all__ = ["load_table"]

_VERSIONS = (1, 2, 3)
_FIRST_VERSION_WITH_NEW_TYPES = 3
_KNOWN_BLOBS = frozenset({"apache-datasketches-theta-v1", "deletion-vector-v1"})
_GZIP_MAGIC = b"\x1f\x8b"


def load_table(metadata_location: str, properties: Mapping[str, str] | None = None) -> StaticTable:
    """Load a table from its metadata file.

    The table is a pyiceberg `StaticTable`. Unlike `StaticTable.from_metadata` this also loads schemas of version 3 with
    variant columns, geometry and geography as the spec spells them, and defaults of timestamps in nanoseconds.

    Args:
        metadata_location: The location of a ``.metadata.json`` file.
        properties: For the storage, as pyiceberg's `FileIO` takes them. They may name any class; the metadata file
            may name only pyiceberg's and formatkit's own, and says nothing about how the storage is reached.

    Raises:
        FileMissingError, StorageError: The file cannot be read.
        CorruptFileError: It is not the metadata of a table.
        UnsupportedError: It is of a version that is not known, or older than manifest lists.
        ConfigurationError: It names code to import that it is not believed about.
        SchemaResolutionError: A schema has a type that Iceberg lacks, or the table is partitioned by a variant.
    """
    given = dict(properties or {})
    with closing(open_source(metadata_location, load_for_table(given, {}, metadata_location))) as source:
        content = bytes(source.read(0, source.size()))
    metadata = _metadata(metadata_location, content)
    return StaticTable(
        identifier=("static-table", metadata_location),
        metadata_location=metadata_location,
        metadata=metadata,
        io=load_for_table(given, metadata.properties, metadata_location),
        catalog=NoopCatalog("static-table"),
    )


def _metadata(location: str, content: bytes) -> TableMetadata:
    try:
        text = gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content
        metadata = _parse(json.loads(text))
    except (SchemaResolutionError, UnsupportedError) as error:
        raise type(error)(f"{location}: {error}", location=location) from error
    except (ValidationError, ArithmeticError, EOFError, LookupError, OSError, TypeError, ValueError) as error:
        message = f"{location}: is not the metadata of an Iceberg table: {type(error).__name__}: {error}"
        raise CorruptFileError(message, location=location) from error
    _refuse_partitions_by_variant(location, metadata)
    return metadata


def _parse(document: dict[str, Any]) -> TableMetadata:
    version = document["format-version"]
    if version not in _VERSIONS:
        raise UnsupportedError(f"is a table of version {version}; known are {', '.join(map(str, _VERSIONS))}")
    if any("manifest-list" not in snapshot for snapshot in document.get("snapshots") or ()):
        message = (
            "has a snapshot that names its manifests itself, which version 1 allows; only snapshots with a manifest "
            "list can be read: copy the table with an engine that reads it"
        )
        raise UnsupportedError(message)
    if document.get("statistics"):
        # They are not needed to read the table, and pyiceberg takes only those that it knows for valid.
        document = document | {"statistics": [each for each in document["statistics"] if _is_known(each)]}
    if version >= _FIRST_VERSION_WITH_NEW_TYPES:
        # The models take schemas that are made already.
        document = document | {"schemas": [schema_from_json(schema) for schema in document["schemas"]]}
    return TableMetadataUtil.parse_obj(document)


def _is_known(statistics: Mapping[str, Any]) -> bool:
    return all(blob["type"] in _KNOWN_BLOBS for blob in statistics["blob-metadata"])


def _refuse_partitions_by_variant(location: str, metadata: TableMetadata) -> None:
    variants = {
        field.field_id
        for schema in metadata.schemas
        for field in index_by_id(schema).values()
        if isinstance(field.field_type, VariantType)
    }
    for spec in metadata.partition_specs:
        for field in spec.fields:
            if field.source_id in variants:
                message = f"{location}: partition field {field.name!r} is made from a variant, which Iceberg forbids"
                raise SchemaResolutionError(message, location=location)
