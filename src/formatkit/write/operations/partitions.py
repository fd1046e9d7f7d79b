"""The partition of a data file, as a scan and as a manifest hold it."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from formatkit.contract.values import internal_value
from formatkit.scan import FileTask
from formatkit.scan.planner import PARTITION_FIELD_IDS, partition_type

__all__ = ["partition_in_words", "partition_record"]


def partition_record(metadata: TableMetadata, file: FileTask) -> Record:
    """The partition of a planned file in the order of its spec, as manifests store it."""
    union = partition_type(metadata).fields
    values = dict(zip((field.field_id - PARTITION_FIELD_IDS for field in union), file.partition or (), strict=False))
    # A field that is void in every spec is always null and has no place in the union.
    return Record(*(values.get(field.field_id) for field in metadata.specs()[file.spec_id].fields))


def partition_in_words(metadata: TableMetadata, partition: Record, spec_id: int) -> str:
    """Equal for equal partitions only: 0.0 is not -0.0, and NaN is NaN."""
    types = {field.field_id - PARTITION_FIELD_IDS: field.field_type for field in partition_type(metadata).fields}
    return ", ".join(
        f"{field.name}={internal_value(types[field.field_id], partition[position])!r}"
        for position, field in enumerate(metadata.specs()[spec_id].fields)
        if field.field_id in types
    )
