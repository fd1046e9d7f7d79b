"""What runs on an executor: the rows of one Spark partition become data files, which no snapshot refers to yet."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyspark import TaskContext

from formatkit.scan.sources import TableFiles
from formatkit.spark.writing.incoming import from_spark
from formatkit.spark.writing.task_errors import noted_errors
from formatkit.write import TableWriteConfig, TableWriter

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

__all__ = ["MESSAGE_COLUMN", "TaskFiles", "WriteRows", "WriteTask"]

MESSAGE_COLUMN = "message"
# For writers outside of a task of Spark, whose files need names of their own, too.
_outside_of_tasks = itertools.count()


@dataclass(frozen=True)
class TaskFiles:
    """What an attempt of a task reports once all its files are complete. Can be pickled.

    Attributes:
        files: The data files, with their metrics.
        rows: How many rows they have.
        bytes: How long they are together.
        attempt: Spark's id of the attempt (`taskAttemptId`), which no other attempt of the application has.
        partition: The number of the partition whose rows these are.
        retried: Whether there was another attempt before this one, which may have left files.
    """

    files: tuple[DataFile, ...]
    rows: int
    bytes: int
    attempt: int
    partition: int
    retried: bool = False


@dataclass(frozen=True, kw_only=True)
class WriteTask:
    """How the tasks of one job write; the same for all of them. Can be pickled.

    Attributes:
        config: What to write, and where.
        storage: The table's `FileIO`; what travels is its class and its properties, and each process builds it once.
        write_id: The UUID of the job, a part of the name of every file.
        clustered: Whether the rows of each partition of the table follow each other. If left out, this is found out.
    """

    config: TableWriteConfig
    storage: TableFiles = field(repr=False)
    write_id: str
    clustered: bool | None = None

    @property
    def io_properties(self) -> Mapping[str, str]:
        """The properties of the table's `FileIO`."""
        return self.storage.io.properties

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskFiles:
        """Write the rows of one partition. A failure deletes the files that were written before it.

        Args:
            batches: The rows, as Spark or anybody else has them; columns are matched by name.
        """
        context = TaskContext.get()
        if context is None:
            partition, attempt, retried = 0, next(_outside_of_tasks), False
        else:
            partition, attempt, retried = context.partitionId(), context.taskAttemptId(), context.attemptNumber() > 0
        prefix = f"{partition:05d}-{attempt}-{self.write_id}"
        convert = from_spark(self.config.schema)
        with TableWriter(self.config, self.storage.io, prefix=prefix, clustered=self.clustered) as writer:
            for batch in batches:
                writer.write(convert(batch))
            files = writer.close()
        rows = sum(file.record_count for file in files)
        return TaskFiles(files, rows, sum(file.file_size_in_bytes for file in files), attempt, partition, retried)


@dataclass
class WriteRows:
    """The function that `mapInArrow` runs: the rows of a partition in, one row with a pickled `TaskFiles` out.

    Attributes:
        task: How to write.
        counters: Where to count, if anybody looks.
        title: How plans call it.
    """

    task: WriteTask
    counters: Accumulator[dict[int, dict[str, int]]] | None = None
    title: str = "formatkit write"
    # Work that is sent with a function; the rows are all the work that there is here.
    buckets: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def __name__(self) -> str:  # where Spark looks for the title
        return self.title

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with noted_errors():
            yield message(self.task.write(batches), self.counters)


def message(files: TaskFiles, counters: Accumulator[dict[int, dict[str, int]]] | None) -> pa.RecordBatch:
    """What a task of `mapInArrow` returns to the driver; what it wrote is counted."""
    if counters is not None:
        counted = {"rows_written": files.rows, "files_written": len(files.files), "bytes_written": files.bytes}
        counters.add({files.partition: counted})
    pickled = pickle.dumps(files, protocol=pickle.HIGHEST_PROTOCOL)
    return pa.RecordBatch.from_arrays([pa.array([pickled], pa.binary())], names=[MESSAGE_COLUMN])
