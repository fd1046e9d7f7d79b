"""Real Iceberg tables from plain rows: data files of any format, manifests and metadata, of any format version.

pyiceberg cannot write version 3, and its catalogs do not let a caller choose ids; here both are free, so that any
history of a table can be put on disk and opened with `StaticTable`, or registered in a catalog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import write_manifest_list
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.typedef import TableVersion

from formatkit.contract import FormatPlugin, WriteOptions, schema_to_json
from formatkit.io import open_sink
from formatkit.scan import load_table
from formatkit.tck.manifests import SNAPSHOT, Entry, data_entry, write_manifest
from formatkit.tck.naive import File
from formatkit.tck.rows import to_arrow

__all__ = ["make_table", "write_parquet", "write_with"]

_MOMENT = 1_700_000_000_000
_NEXT_ROW_ID = 1_000_000
# Small enough for a page every few rows. Below 8, pyarrow loses the only row of a row group if it is an empty list.
_TINY_PAGES = {"data_page_size": 8, "write_batch_size": 2, "write_page_index": True}


def write_parquet(path: Path, file: File, *, ids: bool = True, row_group_size: int = 3, **options: Any) -> File:
    """Write the rows with pyarrow, in tiny row groups and pages, and say where they are."""
    table = to_arrow(file.schema, file.rows, ids=ids)
    pq.write_table(table, path, row_group_size=row_group_size, **(_TINY_PAGES | options))
    return replace(file, location=path.absolute().as_uri())


def write_with(
    plugin: FormatPlugin[pa.RecordBatch],
    path: Path,
    file: File,
    *,
    batch_rows: int = 3,
    properties: Mapping[str, str] | None = None,
) -> File:
    """Write the rows, of which there must be one at least, with a plugin, and say where they are."""
    options = WriteOptions(schema=file.schema, properties=properties or {})
    with plugin.writer().open(open_sink(str(path)), options) as writer:
        for batch in to_arrow(file.schema, file.rows).to_batches(max_chunksize=batch_rows):
            writer.write(batch)
        if writer.close() is None:
            raise ValueError(f"a file without rows is never written, so there is none at {path}")
    return replace(file, location=path.absolute().as_uri(), file_format=plugin.file_format)


def make_table(
    directory: Path,
    schemas: Sequence[Schema],
    files: Sequence[File],
    *,
    specs: Sequence[PartitionSpec] = (UNPARTITIONED_PARTITION_SPEC,),
    format_version: TableVersion = 2,
    properties: Mapping[str, str] | None = None,
    deletes: Sequence[Entry] = (),
) -> StaticTable:
    """A table of one snapshot that holds the files; the last schema and the last spec are the current ones.

    What `deletes` delete is read from delete files that are there already: `formatkit.tck.delete_tables` writes them.
    """
    metadata = directory / "metadata"
    metadata.mkdir(parents=True, exist_ok=True)
    io = PyArrowFileIO()
    entries = [*map(data_entry, files), *deletes]
    last = max([1, *(entry.sequence_number or 1 for entry in entries)])
    if last > 1:
        # They would inherit the number of the snapshot.
        entries = [replace(entry, sequence_number=entry.sequence_number or 1) for entry in entries]
    manifests = [
        write_manifest(io, metadata / f"{name}.avro", _schema_of(spec, schemas), spec, own, format_version)
        for spec in specs
        for name, is_data in ((f"manifest-{spec.spec_id}", True), (f"deletes-{spec.spec_id}", False))
        if (own := [entry for entry in entries if entry.spec_id == spec.spec_id and entry.is_data is is_data])
    ]
    manifest_list = metadata / "snap-1.avro"
    # A version 2 list is legal in version 3: the fields that version 3 adds are optional.
    list_version: TableVersion = 1 if format_version == 1 else 2
    output = io.new_output(manifest_list.as_uri())
    with write_manifest_list(list_version, output, SNAPSHOT, None, last, "null") as writer:
        writer.add_manifests(manifests)
    content = _metadata(directory, schemas, specs, manifest_list, format_version, properties or {}, last)
    location = metadata / "v1.metadata.json"
    location.write_text(json.dumps(content))
    return load_table(location.as_uri())


def _schema_of(spec: PartitionSpec, schemas: Sequence[Schema]) -> Schema:
    """The newest schema that still has what the spec partitions by."""
    sources = {part.source_id for part in spec.fields}
    return next((schema for schema in reversed(schemas) if sources <= schema.field_ids), schemas[-1])


def _metadata(
    directory: Path,
    schemas: Sequence[Schema],
    specs: Sequence[PartitionSpec],
    manifest_list: Path,
    format_version: TableVersion,
    properties: Mapping[str, str],
    sequence_number: int,
) -> dict[str, Any]:
    current = json.loads(schema_to_json(schemas[-1]))
    snapshot = {
        "snapshot-id": SNAPSHOT,
        "sequence-number": sequence_number,
        "timestamp-ms": _MOMENT,
        "manifest-list": manifest_list.as_uri(),
        "summary": {"operation": "append"},
        "schema-id": schemas[-1].schema_id,
    }
    version_one = {"schema": current, "partition-spec": json.loads(specs[-1].model_dump_json())["fields"]}
    version_three = {"next-row-id": _NEXT_ROW_ID}
    return {
        "format-version": format_version,
        "table-uuid": str(UUID(int=1)),
        "location": directory.as_uri(),
        "last-sequence-number": sequence_number,
        "last-updated-ms": _MOMENT,
        "last-column-id": max(schema.highest_field_id for schema in schemas),
        "schemas": [json.loads(schema_to_json(schema)) for schema in schemas],
        "current-schema-id": schemas[-1].schema_id,
        "partition-specs": [json.loads(spec.model_dump_json()) for spec in specs],
        "default-spec-id": specs[-1].spec_id,
        "last-partition-id": max(999, *(field.field_id for spec in specs for field in spec.fields), 999),
        "properties": dict(properties),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "snapshots": [snapshot | ({"first-row-id": 0, "added-rows": _NEXT_ROW_ID} if format_version == 3 else {})],
        "current-snapshot-id": SNAPSHOT,
        "refs": {"main": {"snapshot-id": SNAPSHOT, "type": "branch"}},
        **{1: version_one, 3: version_three}.get(format_version, {}),
    }
