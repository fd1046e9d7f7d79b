"""Writes manifests and manifest lists of every format version.

pyiceberg's writers know neither version 3 nor delete manifests nor partition columns that were dropped, and store the
ids of equality deletes with a type that other engines refuse.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic_core import to_json
from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldStats,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IcebergType, IntegerType, ListType, NestedField, PrimitiveType, StructType
from pyiceberg.utils.properties import property_as_int

from formatkit.contract.schema_json import schema_to_json
from formatkit.errors import UnsupportedError
from formatkit.io import RuntimeFileIO
from formatkit.io.pyiceberg.trust import load_provider_for_table
from formatkit.write.commit.avro_output import MetadataOutput
from formatkit.write.commit.cleanup import UncommittedFiles
from formatkit.write.commit.records import complete, manifest_first_row_id

__all__ = ["ManifestFiles", "partition_type"]

_BLOCK_ENTRIES = 250
# The property is about data files first. Where it names what metadata cannot be compressed with, the default serves.
_CODECS = {"uncompressed": "null", "zstd": "zstandard"}
_PARTITION, _EQUALITY_IDS, _DATA_FILE = 102, 135, 2


class ManifestFiles:
    """Writes the manifests and the manifest list of one attempt to commit a snapshot."""

    def __init__(self, table: Table, snapshot_id: int, files: UncommittedFiles) -> None:
        self._metadata = table.metadata
        self._io = RuntimeFileIO.around(table.io)
        location = table.metadata.location
        self._locations = load_provider_for_table(
            location, table.metadata.properties, table.catalog.properties, f"the table at {location}"
        )
        self._snapshot_id = snapshot_id
        self._files = files
        self._name = uuid.uuid4()
        self._numbers = itertools.count()
        properties = self._metadata.properties
        self._codec = _CODECS.get(properties.get(TableProperties.WRITE_AVRO_COMPRESSION, ""), "deflate")
        self.target_bytes = (
            property_as_int(
                properties,
                TableProperties.MANIFEST_TARGET_SIZE_BYTES,
                TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
            )
            or TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT
        )

    def write(self, content: ManifestContent, spec_id: int, entries: Iterable[ManifestEntry]) -> list[ManifestFile]:
        """Write entries of one partition spec, to several manifests if they are too many for one."""
        spec = self._metadata.specs()[spec_id]
        partition = partition_type(spec, self._metadata)
        waiting = iter(entries)
        written = []
        while (first := next(waiting, None)) is not None:
            written.append(self._write_one(content, spec, partition, itertools.chain((first,), waiting)))
        return written

    def _write_one(
        self, content: ManifestContent, spec: PartitionSpec, partition: StructType, entries: Iterator[ManifestEntry]
    ) -> ManifestFile:
        version = self._metadata.format_version
        location = self._new_location(f"{self._name}-m{next(self._numbers)}.avro")
        tally = _Tally(partition)
        with MetadataOutput[ManifestEntry](
            output_file=self._io.new_output(location),
            file_schema=_entry_schema(version, partition),
            record_schema=_entry_schema(3, partition),
            schema_name="manifest_entry",
            metadata=self._header(content, spec),
        ) as output:
            while block := list(itertools.islice(entries, _BLOCK_ENTRIES)):
                for entry in block:
                    tally.add(entry)
                output.write_block(block)
                if output.tell() >= self.target_bytes:
                    break
            length = output.tell()
        return tally.manifest(location, length, content, spec.spec_id, self._snapshot_id)

    def added(self, file: DataFile, sequence_number: int | None = None) -> ManifestEntry:
        """The entry of a new file, which inherits the sequence number of the snapshot unless one is given."""
        return ManifestEntry(ManifestEntryStatus.ADDED, self._snapshot_id, sequence_number, None, complete(file))

    def deleted(self, entry: ManifestEntry) -> ManifestEntry:
        """The entry of a file that this snapshot removes."""
        return _marked(entry, ManifestEntryStatus.DELETED, self._snapshot_id)

    def kept(self, entry: ManifestEntry) -> ManifestEntry:
        """The entry of a file that stays, in another manifest than before."""
        if entry.snapshot_id == self._snapshot_id:
            return entry
        return _marked(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id)

    def write_list(
        self, manifests: Sequence[ManifestFile], *, parent_id: int | None, sequence_number: int, next_row_id: int
    ) -> tuple[str, int]:
        """Write the list; returns its location and the number of row ids that it assigns."""
        version = self._metadata.format_version
        location = self._new_location(f"snap-{self._snapshot_id}-0-{self._name}.avro")
        first_row_id = next_row_id
        lines = []
        for manifest in manifests:
            line = _numbered(manifest, sequence_number)
            if version >= 3 and line.content == ManifestContent.DATA and manifest_first_row_id(line) is None:
                line[-1] = next_row_id
                # Room for existing rows too: files from before version 3 get their ids here.
                next_row_id += (line.existing_rows_count or 0) + (line.added_rows_count or 0)
            lines.append(line)
        header = {
            "snapshot-id": str(self._snapshot_id),
            "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
            "format-version": str(version),
            AVRO_CODEC_KEY: self._codec,
        }
        if version >= 2:
            header["sequence-number"] = str(sequence_number)
        if version >= 3:
            header["first-row-id"] = str(first_row_id)
        with MetadataOutput[ManifestFile](
            output_file=self._io.new_output(location),
            file_schema=MANIFEST_LIST_FILE_SCHEMAS[version],
            record_schema=MANIFEST_LIST_FILE_SCHEMAS[3],
            schema_name="manifest_file",
            metadata=header,
        ) as output:
            output.write_block(lines)
        return location, next_row_id - first_row_id

    def _new_location(self, name: str) -> str:
        return self._files.add(self._locations.new_metadata_location(name))

    def _header(self, content: ManifestContent, spec: PartitionSpec) -> dict[str, str]:
        header = {
            "schema": schema_to_json(self._metadata.schema()),
            "partition-spec": to_json(spec.fields, by_alias=True).decode(),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(self._metadata.format_version),
            AVRO_CODEC_KEY: self._codec,
        }
        if self._metadata.format_version >= 2:
            header["content"] = "deletes" if content == ManifestContent.DELETES else "data"
        return header


class _Tally:
    """Counts what the manifest list says about a manifest."""

    def __init__(self, partition: StructType) -> None:
        self._files = dict.fromkeys(ManifestEntryStatus, 0)
        self._rows = dict.fromkeys(ManifestEntryStatus, 0)
        self._oldest: int | None = None
        self._partitions = [
            PartitionFieldStats(field.field_type)
            for field in partition.fields
            if isinstance(field.field_type, PrimitiveType)
        ]

    def add(self, entry: ManifestEntry) -> None:
        self._files[entry.status] += 1
        self._rows[entry.status] += entry.data_file.record_count
        for position, statistics in enumerate(self._partitions):
            statistics.update(entry.data_file.partition[position])
        number = entry.sequence_number
        if entry.status != ManifestEntryStatus.DELETED and number is not None:
            self._oldest = number if self._oldest is None else min(self._oldest, number)

    def manifest(
        self, location: str, length: int, content: ManifestContent, spec_id: int, snapshot_id: int
    ) -> ManifestFile:
        added, existing, deleted = (
            ManifestEntryStatus.ADDED,
            ManifestEntryStatus.EXISTING,
            ManifestEntryStatus.DELETED,
        )
        return ManifestFile.from_args(
            _table_format_version=3,
            manifest_path=location,
            manifest_length=length,
            partition_spec_id=spec_id,
            content=content,
            sequence_number=UNASSIGNED_SEQ,
            min_sequence_number=UNASSIGNED_SEQ if self._oldest is None else self._oldest,
            added_snapshot_id=snapshot_id,
            added_files_count=self._files[added],
            existing_files_count=self._files[existing],
            deleted_files_count=self._files[deleted],
            added_rows_count=self._rows[added],
            existing_rows_count=self._rows[existing],
            deleted_rows_count=self._rows[deleted],
            partitions=[each.to_summary() for each in self._partitions],
            key_metadata=None,
            first_row_id=None,
        )


def _marked(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None) -> ManifestEntry:
    return ManifestEntry(status, snapshot_id, entry.sequence_number, entry.file_sequence_number, entry.data_file)


def partition_type(spec: PartitionSpec, metadata: TableMetadata) -> StructType:
    """The type of a spec's partition values, also if columns that it refers to were dropped meanwhile."""
    schemas = [metadata.schema(), *reversed(metadata.schemas)]
    return StructType(
        *(
            NestedField(field.field_id, field.name, _result_type(field, schemas), required=False)
            for field in spec.fields
        )
    )


def _result_type(field: PartitionField, schemas: Sequence[Schema]) -> PrimitiveType:
    for schema in schemas:
        if field.source_id in schema.field_ids:
            result = field.transform.result_type(schema.find_type(field.source_id))
            if isinstance(result, PrimitiveType):
                return result
    message = (
        f"the values of partition field {field.name!r} cannot be written, because no schema of the table has its "
        f"source, column {field.source_id}, any more"
    )
    raise UnsupportedError(message)


def _entry_schema(version: TableVersion, partition: StructType) -> Schema:
    """The schema of manifest entries; ids of equality deletes are ints, as the specification says."""
    types: dict[int, IcebergType] = {
        _PARTITION: partition,
        _EQUALITY_IDS: ListType(element_id=136, element_type=IntegerType(), element_required=True),
    }
    file = StructType(*(_with_type(field, types) for field in DATA_FILE_TYPE[version].fields))
    return Schema(*(_with_type(field, {_DATA_FILE: file}) for field in MANIFEST_ENTRY_SCHEMAS[version].fields))


def _with_type(field: NestedField, types: Mapping[int, IcebergType]) -> NestedField:
    return field.model_copy(update={"field_type": types[field.field_id]}) if field.field_id in types else field


def _numbered(manifest: ManifestFile, sequence_number: int) -> ManifestFile:
    """A line of the list, of which a manifest that is new gets the sequence number of the snapshot."""
    line = ManifestFile(*(manifest[position] for position in range(len(manifest))))
    if line.sequence_number == UNASSIGNED_SEQ:
        line.sequence_number = sequence_number
    if line.min_sequence_number == UNASSIGNED_SEQ:
        line.min_sequence_number = sequence_number
    return line
