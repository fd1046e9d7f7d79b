"""Loads tables from their metadata files, with the types that pyiceberg cannot load."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID
from pyiceberg.transforms import BucketTransform, TruncateTransform, UnknownTransform, VoidTransform

from formatkit.contract.schema_json import check_json_depth, schema_from_json
from formatkit.contract.variant import VariantType
from formatkit.errors import (
    CorruptFileError,
    FormatkitError,
    InvalidTableError,
    SchemaResolutionError,
    UnsupportedError,
)
from formatkit.io import open_source
from formatkit.io.pyiceberg.trust import load_for_table
from formatkit.scan.metadata_files import decompressed

__all__ = ["check_specs", "load_table", "sound_metadata"]

_VERSIONS = (1, 2, 3)
_FIRST_VERSION_WITH_NEW_TYPES = 3
_KNOWN_BLOBS = frozenset({"apache-datasketches-theta-v1", "deletion-vector-v1"})
_MAX_INT = 2**31 - 1
# Those above are reserved for metadata columns.
_MAX_FIELD_ID = 2**31 - 201
# What parsing JSON and pyiceberg's models raise for a document that is none of theirs.
_FAILURES = (
    ValidationError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
    zlib.error,
)


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
        ConfigurationError: It names code to import that it is not believed about.
        InvalidTableError: A partition field has a transform that Iceberg does not have for its column.
        UnsupportedError: It is of a version that is not known, or older than manifest lists, or has a schema with too
            many levels.
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
        metadata = _parse(json.loads(decompressed(content)))
        _check_ids(metadata)
    except (SchemaResolutionError, UnsupportedError) as error:
        raise type(error)(f"{location}: {error}", location=location) from error
    except _FAILURES as error:
        message = f"{location}: is not the metadata of an Iceberg table: {type(error).__name__}: {error}"
        raise CorruptFileError(message, location=location) from error
    with sound_metadata(location):
        _refuse_partitions_by_variant(location, metadata)
        check_specs(metadata, location)
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
    for schema in (*document.get("schemas", ()), *filter(None, [document.get("schema")])):
        check_json_depth(schema)
    if version >= _FIRST_VERSION_WITH_NEW_TYPES:
        # The models take schemas that are made already.
        document = document | {"schemas": [schema_from_json(schema) for schema in document["schemas"]]}
    return TableMetadataUtil.parse_obj(document)


def _is_known(statistics: Mapping[str, Any]) -> bool:
    return all(blob["type"] in _KNOWN_BLOBS for blob in statistics["blob-metadata"])


def _check_ids(metadata: TableMetadata) -> None:
    """Raise `ValueError` if something is referred to that is not there, or has several meanings."""
    for what, ids in (
        ("schema", [each.schema_id for each in metadata.schemas]),
        ("partition spec", [each.spec_id for each in metadata.partition_specs]),
        ("sort order", [each.order_id for each in metadata.sort_orders]),
        ("snapshot", [each.snapshot_id for each in metadata.snapshots]),
    ):
        if repeated := [id_ for id_, count in Counter(ids).items() if count > 1]:
            raise ValueError(f"there are several {what}s with the id {repeated[0]}")
    if metadata.schema_by_id(metadata.current_schema_id) is None:
        raise ValueError(f"there is no schema with the current id {metadata.current_schema_id}")
    if metadata.default_spec_id not in metadata.specs():
        raise ValueError(f"there is no partition spec with the default id {metadata.default_spec_id}")
    sort_order = metadata.default_sort_order_id
    if sort_order != UNSORTED_SORT_ORDER_ID and metadata.sort_order_by_id(sort_order) is None:
        raise ValueError(f"there is no sort order with the default id {sort_order}")
    for schema in metadata.schemas:
        wrong = next((id_ for id_ in schema.field_ids if not 0 <= id_ <= _MAX_FIELD_ID), None)
        if wrong is not None:
            raise ValueError(f"schema {schema.schema_id} has a field with the id {wrong}")


@contextmanager
def sound_metadata(location: str) -> Iterator[None]:
    """Turn the errors of pyiceberg's models into one that says that the metadata of a table makes no sense.

    A catalog's answers and metadata files may contradict themselves in more ways than the models check.
    """
    try:
        yield
    except FormatkitError:
        raise
    except _FAILURES as error:
        message = f"{location}: its metadata contradicts itself: {type(error).__name__}: {error}"
        raise InvalidTableError(message, location=location) from error


def check_specs(metadata: TableMetadata, location: str) -> None:
    """Raise `InvalidTableError` for a partition field whose transform is none that Iceberg has for its column."""
    for spec in metadata.partition_specs:
        for field in spec.fields:
            wrong = _defect(field, metadata.schemas)
            if wrong is not None:
                place = f"{location}: the field {field.name!r} of partition spec {spec.spec_id}"
                raise InvalidTableError(f"{place} is {field.transform}: {wrong}", location=location)


def _defect(field: PartitionField, schemas: Sequence[Schema]) -> str | None:
    transform = field.transform
    if isinstance(transform, BucketTransform) and not 0 < transform.num_buckets <= _MAX_INT:
        return "the number of buckets must be positive, and fit 32 bits"
    if isinstance(transform, TruncateTransform) and not 0 < transform.width <= _MAX_INT:
        return "the width must be positive, and fit 32 bits"
    if isinstance(transform, UnknownTransform | VoidTransform):
        return None
    # Only the current spec must have its columns, whose types may have changed since.
    sources = [each.find_type(field.source_id) for each in schemas if field.source_id in each.field_ids]
    return f"its column is {sources[0]}" if sources and not any(map(transform.can_transform, sources)) else None


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
