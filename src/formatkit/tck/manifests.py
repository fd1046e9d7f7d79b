"""Manifests from plain rows, of any format version, for data and for deletes.

pyiceberg cannot write manifests of version 3 nor any of deletes, but knows their schemas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV1,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record, TableVersion

from formatkit.contract import schema_to_json
from formatkit.tck.metrics import manifest_metrics
from formatkit.tck.naive import File, Row

__all__ = ["SNAPSHOT", "Entry", "data_entry", "local_path", "write_manifest"]

SNAPSHOT = 1
"""The id of the only snapshot."""

_LATEST: TableVersion = 3


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a manifest says of one file.

    Attributes:
        facts: Further fields of a `DataFile`, metrics above all.
    """

    location: str
    file_format: str
    row_count: int
    content: DataFileContent = DataFileContent.DATA
    spec_id: int = 0
    partition: Row | None = None
    sequence_number: int | None = None
    first_row_id: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_data(self) -> bool:
        return self.content is DataFileContent.DATA


def data_entry(file: File) -> Entry:
    """The entry of a data file."""
    return Entry(
        location=file.location,
        file_format=file.file_format,
        row_count=len(file.rows),
        spec_id=file.spec_id,
        partition=file.partition,
        sequence_number=file.sequence_number,
        first_row_id=file.first_row_id,
        facts=manifest_metrics(file.schema, file.rows),
    )


def write_manifest(
    io: FileIO, path: Path, schema: Schema, spec: PartitionSpec, entries: Sequence[Entry], version: TableVersion
) -> ManifestFile:
    """Write a manifest of files of one spec, either of data or of deletes."""
    output = io.new_output(path.as_uri())
    is_data = all(entry.is_data for entry in entries)
    # pyiceberg's writer of version 1 takes records in the form of version 2.
    record_version: TableVersion = 2 if is_data and version < _LATEST else _LATEST
    with _writer(output, schema, spec, version, is_data=is_data) as writer:
        for entry in entries:
            record = ManifestEntry.from_args(
                record_version,
                status=ManifestEntryStatus.ADDED,
                snapshot_id=SNAPSHOT,
                sequence_number=entry.sequence_number,
                file_sequence_number=entry.sequence_number,
                data_file=_data_file(entry, spec, record_version),
            )
            writer.add_entry(record)
    return writer.to_manifest_file()


def _writer(
    output: OutputFile, schema: Schema, spec: PartitionSpec, version: TableVersion, *, is_data: bool
) -> ManifestWriter:
    if is_data and version < _LATEST:
        plain = {1: ManifestWriterV1, 2: ManifestWriterV2}[version]
        return plain(spec, schema, output, SNAPSHOT, "null")
    kind = ManifestContent.DATA if is_data else ManifestContent.DELETES
    return _LaterManifestWriter(spec, schema, output, version, kind)


class _LaterManifestWriter(ManifestWriterV2):
    """Writes the fields that version 3 adds, which are optional, so that a manifest of version 2 may have them too."""

    def __init__(
        self, spec: PartitionSpec, schema: Schema, output: OutputFile, version: TableVersion, kind: ManifestContent
    ) -> None:
        super().__init__(spec, schema, output, SNAPSHOT, "null")
        self._format_version = version
        self._kind = kind

    @property
    def version(self) -> TableVersion:
        return self._format_version

    def content(self) -> ManifestContent:
        return self._kind

    @property
    def _meta(self) -> dict[str, str]:
        return {
            "schema": schema_to_json(self._schema),
            "partition-spec": json.dumps(json.loads(self._spec.model_dump_json())["fields"]),
            "partition-spec-id": str(self._spec.spec_id),
            "format-version": str(self.version),
            "content": self._kind.name.lower(),
            "avro.codec": "null",
        }

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(_LATEST)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )


def _data_file(entry: Entry, spec: PartitionSpec, record_version: TableVersion) -> DataFile:
    partition = entry.partition or {}
    row_lineage = {"first_row_id": entry.first_row_id} if record_version >= _LATEST else {}
    data_file = DataFile.from_args(
        record_version,
        content=entry.content,
        file_path=entry.location,
        # pyiceberg knows four formats by name; the manifest takes any.
        file_format=entry.file_format.upper(),
        partition=Record(*(partition.get(part.field_id) for part in spec.fields)),
        record_count=entry.row_count,
        file_size_in_bytes=local_path(entry.location).stat().st_size,
        **entry.facts,
        **row_lineage,
    )
    data_file.spec_id = spec.spec_id
    return data_file


def local_path(location: str) -> Path:
    """Where a file is, whether its location is a URI or a plain path."""
    return Path(unquote(urlsplit(location).path)) if location.startswith("file:") else Path(location)
