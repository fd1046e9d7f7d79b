"""Where an operation writes its files: under the table's location, each remembered until it is committed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import closing

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.typedef import Record

from formatkit.contract.batch import Longs
from formatkit.puffin import DeletionVector
from formatkit.registry import default_registry
from formatkit.scan import FileTask
from formatkit.write.commit import UncommittedFiles
from formatkit.write.deletes import PartitionOf, delete_format, write_deletion_vectors, write_position_deletes
from formatkit.write.incoming import ArrowData, incoming_batches
from formatkit.write.locations import DataLocations
from formatkit.write.operations.base import BaseFiles
from formatkit.write.operations.partitions import partition_record
from formatkit.write.table_writer import TableWriter

__all__ = ["Output"]


class Output:
    """Writes data files and delete files for one operation.

    Args:
        base: What the operation starts from.
        io: The table's storage.
        files: Is told of each file before it is written.
        file_format: The format that the caller asked for.
        target_file_bytes: About how long data files get, if the caller says so.
        prefix: How the names of all files begin; no other operation may ever have the same one.
    """

    def __init__(
        self,
        base: BaseFiles,
        io: FileIO,
        files: UncommittedFiles,
        file_format: str | None = None,
        target_file_bytes: int | None = None,
        prefix: str | None = None,
    ) -> None:
        self._metadata = base.metadata
        self._catalog_properties = base.catalog_properties
        self._registry = base.registry or default_registry()
        self._io = io
        self._files = files
        self._file_format = file_format
        self._target_file_bytes = target_file_bytes
        self._prefix = prefix
        self._numbers = itertools.count()
        self._delete_format = (file_format or delete_format(self.properties)).lower()

    @property
    def properties(self) -> Mapping[str, str]:
        """Of the table."""
        return self._metadata.properties

    def data_writer(self, schema: Schema | None = None, sort_order: SortOrder | None = None) -> TableWriter:
        """A writer of data files; schema and order are the table's if left out."""
        return TableWriter(
            self._metadata,
            self._io,
            file_format=self._file_format,
            schema=schema,
            sort_order=sort_order,
            target_file_bytes=self._target_file_bytes,
            files=self._files,
            prefix=self._next_prefix(),
            registry=self._registry,
            catalog_properties=self._catalog_properties,
        )

    def write_data(self, data: ArrowData, schema: Schema | None = None) -> tuple[DataFile, ...]:
        """Write rows that come from outside, as one or more data files; none if there are no rows."""
        with self.data_writer(schema) as writer, closing(incoming_batches(data)) as batches:
            for batch in batches:
                writer.write(batch)
            return writer.close()

    def write_position_deletes(self, positions: Mapping[str, Longs], file: FileTask) -> DataFile:
        """Write which rows of data files are deleted; `file` is one of them, and all are of its partition."""
        plugin = self._registry.plugin(self._delete_format, pa.RecordBatch)
        partition = partition_record(self._metadata, file)
        return write_position_deletes(
            self._location(f"-deletes{plugin.extensions[0]}"),
            positions,
            file_format=plugin.file_format,
            properties=self.properties,
            partition=partition,
            spec_id=file.spec_id,
            io=self._io,
            registry=self._registry,
        )

    def write_deletion_vectors(
        self, vectors: Mapping[str, DeletionVector], files: Mapping[str, FileTask]
    ) -> list[DataFile]:
        """Write which rows of data files are deleted, all in one file; `files` says where each data file belongs."""
        partitions = {
            location: PartitionOf(file.spec_id, partition_record(self._metadata, file))
            for location, file in files.items()
        }
        return write_deletion_vectors(self._location("-deletes.puffin"), vectors, partitions=partitions, io=self._io)

    def _location(self, ending: str) -> str:
        """Without the folder of a partition: it has no meaning, and older specs may have columns that are gone."""
        locations = DataLocations(
            self._metadata.location,
            self.properties,
            UNPARTITIONED_PARTITION_SPEC,
            self._metadata.schema(),
            ending=ending,
            prefix=self._next_prefix(),
            trusted=self._catalog_properties,
        )
        return self._files.add(locations.new(Record()))

    def _next_prefix(self) -> str | None:
        """Each writer numbers its files by itself, so that it needs a prefix of its own."""
        return None if self._prefix is None else f"{self._prefix}-{next(self._numbers)}"
