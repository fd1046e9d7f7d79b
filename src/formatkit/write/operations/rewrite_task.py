"""What runs for each piece of a rewrite, in any process: the rows of some files become other files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile

from formatkit.errors import UnsupportedError
from formatkit.registry import FormatRegistry
from formatkit.scan.buckets import Bucket, BucketReader
from formatkit.scan.sources import TableFiles
from formatkit.write.config import TableWriteConfig
from formatkit.write.jobs import Attempt
from formatkit.write.table_writer import TableWriter

__all__ = ["RewriteTask", "RewrittenFiles"]


@dataclass(frozen=True)
class RewrittenFiles:
    """What an attempt reports once all its files are complete.

    Attributes:
        files: The new data files, with their metrics.
        retried: Whether there was another attempt before this one, which may have left files.
    """

    files: tuple[DataFile, ...]
    retried: bool


@dataclass(frozen=True, kw_only=True)
class RewriteTask:
    """Reads a bucket and writes its rows. Can be pickled if all formats are installed where it is to run.

    Attributes:
        reader: Reads the buckets of the base, without deleted rows.
        config: What to write, and where.
        storage: The table's `FileIO`.
        files_id: The UUID in the names of all files.
        registry: Where the format of new files is looked up; what is installed if left out.
    """

    reader: BucketReader[pa.RecordBatch]
    config: TableWriteConfig
    storage: TableFiles = field(repr=False)
    files_id: str
    registry: FormatRegistry | None = None

    def __call__(self, work: Bucket, attempt: Attempt) -> RewrittenFiles:
        prefix = f"{attempt.piece:05d}-{attempt.number}-{self.files_id}"
        writer = TableWriter(self.config, self.storage.io, prefix=prefix, registry=self.registry)
        with writer, self.reader.batches(work) as batches:
            read = 0
            for batch in batches:
                writer.write(batch)
                read += batch.num_rows
                attempt.tell(read)
            return RewrittenFiles(writer.close(), attempt.retried)

    def __getstate__(self) -> dict[str, Any]:
        if self.registry is not None:
            message = (
                "a registry of your own cannot be sent to another process; install its formats with entry points and "
                "leave registry out, or let the job run here"
            )
            raise UnsupportedError(message)
        return self.__dict__
