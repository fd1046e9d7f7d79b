"""Checks that what a table's metadata file refers to by id is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyiceberg.schema import index_by_id
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID
from pyiceberg.transforms import VoidTransform

from formatkit.validation.findings import Findings

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["check_metadata"]

Wrong = tuple[str, str, str]
"""A code, what is said, and what is found."""


def check_metadata(metadata: TableMetadata, location: str, findings: Findings) -> None:
    """Check ids, counters and references of a metadata file."""
    for check in (_snapshots, _schemas, _specs, _sort_orders, _counters):
        for code, said, found in check(metadata):
            findings.add(code, location, said=said, found=found)


def _known(ids: Iterable[int | None]) -> str:
    return f"there are {', '.join(map(str, ids)) or 'none'}"


def _twice(what: str, ids: Iterable[int | None]) -> Iterator[Wrong]:
    for id_, count in Counter(ids).items():
        if count > 1:
            yield "metadata-corrupt", f"{what} {id_} once", f"{count} times"


def _snapshots(metadata: TableMetadata) -> Iterator[Wrong]:
    ids = [each.snapshot_id for each in metadata.snapshots]
    yield from _twice("snapshot", ids)
    current = metadata.current_snapshot_id
    if current is not None and current not in ids:
        yield "snapshot-unknown", f"the current snapshot is {current}", _known(ids)
    for name, ref in metadata.refs.items():
        if ref.snapshot_id not in ids:
            yield "snapshot-unknown", f"the reference {name!r} is snapshot {ref.snapshot_id}", _known(ids)
    main = metadata.refs.get("main")
    if main is not None and current is not None and main.snapshot_id != current:
        yield "snapshot-unknown", f"the current snapshot is {current}", f"the branch main is {main.snapshot_id}"
    for entry in metadata.snapshot_log:
        if entry.snapshot_id not in ids:
            yield "snapshot-log", f"the log has snapshot {entry.snapshot_id}", _known(ids)
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        if statistics.snapshot_id not in ids:
            said = f"{statistics.statistics_path} is of snapshot {statistics.snapshot_id}"
            yield "statistics-file", said, _known(ids)


def _schemas(metadata: TableMetadata) -> Iterator[Wrong]:
    ids = [each.schema_id for each in metadata.schemas]
    yield from _twice("schema", ids)
    if metadata.current_schema_id not in ids:
        yield "schema-unknown", f"the current schema is {metadata.current_schema_id}", _known(ids)
    for snapshot in metadata.snapshots:
        if snapshot.schema_id is not None and snapshot.schema_id not in ids:
            yield "schema-unknown", f"snapshot {snapshot.snapshot_id} has the schema {snapshot.schema_id}", _known(ids)
    for schema in metadata.schemas:
        for id_ in schema.identifier_field_ids:
            if id_ not in schema.field_ids:
                said = f"schema {schema.schema_id} has the identifier field {id_}"
                yield "column-unknown", said, _known(sorted(schema.field_ids))


def _specs(metadata: TableMetadata) -> Iterator[Wrong]:
    ids = [each.spec_id for each in metadata.partition_specs]
    yield from _twice("partition spec", ids)
    if metadata.default_spec_id not in ids:
        yield "spec-unknown", f"the default partition spec is {metadata.default_spec_id}", _known(ids)
    columns = {id_ for schema in metadata.schemas for id_ in schema.field_ids}
    for spec in metadata.partition_specs:
        for field in spec.fields:
            if field.source_id not in columns and not isinstance(field.transform, VoidTransform):
                said = f"partition spec {spec.spec_id} is made from column {field.source_id}"
                # Old specs may outlive the schemas that had their columns.
                if spec.spec_id == metadata.default_spec_id:
                    yield "column-unknown", said, "no schema has it"


def _sort_orders(metadata: TableMetadata) -> Iterator[Wrong]:
    ids = [each.order_id for each in metadata.sort_orders]
    yield from _twice("sort order", ids)
    default = metadata.default_sort_order_id
    if default not in (*ids, UNSORTED_SORT_ORDER_ID):
        yield "sort-order-unknown", f"the default sort order is {default}", _known(ids)
    columns = {id_ for schema in metadata.schemas for id_ in schema.field_ids}
    for order in metadata.sort_orders:
        for field in order.fields:
            if field.source_id not in columns and order.order_id == default:
                said = f"sort order {order.order_id} is made from column {field.source_id}"
                yield "column-unknown", said, "no schema has it"


def _counters(metadata: TableMetadata) -> Iterator[Wrong]:
    highest = max((id_ for schema in metadata.schemas for id_ in index_by_id(schema)), default=0)
    if highest > metadata.last_column_id:
        yield "last-id", f"the last column id is {metadata.last_column_id}", f"a column has the id {highest}"
    highest = max((each.field_id for spec in metadata.partition_specs for each in spec.fields), default=0)
    last_partition = metadata.last_partition_id
    if last_partition is not None and highest > last_partition:
        yield "last-id", f"the last partition id is {last_partition}", f"a partition field has the id {highest}"
    last = getattr(metadata, "last_sequence_number", 0)
    for snapshot in metadata.snapshots:
        if (snapshot.sequence_number or 0) > last:
            found = f"snapshot {snapshot.snapshot_id} has the number {snapshot.sequence_number}"
            yield "last-id", f"the last sequence number is {last}", found
    if isinstance(metadata, TableMetadataV3) and metadata.next_row_id is not None:
        for snapshot in metadata.snapshots:
            end = (snapshot.first_row_id or 0) + (snapshot.added_rows or 0)
            if end > metadata.next_row_id:
                found = f"snapshot {snapshot.snapshot_id} assigned ids up to {end - 1}"
                yield "last-id", f"the next row id is {metadata.next_row_id}", found
