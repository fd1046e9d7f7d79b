"""A streaming query from one table to another whose driver can be killed at a chosen point of a chosen micro-batch.

    python -m support.doomed_streams FOLDER WAY [POINT BATCH]

It writes by the data source or by `toTable`, and ends by itself when all rows of the source are read.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyiceberg.table import Table
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import formatkit.spark
from formatkit.spark.catalog import current_table
from formatkit.spark.catalog.streams import StreamWrite
from formatkit.spark.streaming.reader import TableStreamReader
from formatkit.spark.streaming.writer import TableStreamWriter
from pyspark_formatkit import DefaultSource
from support.streams import StreamTables

__all__ = ["POINTS", "WAYS"]

WAYS = ("source", "table")

POINTS = ("plan", "task", "before", "inside", "after")
"""Before a micro-batch is planned; in a task, when its files are written; before the commit, when the catalog has taken
it and nobody knows yet, and after it."""


@dataclass(frozen=True)
class Doom:
    """Where the driver is to die, and which processes it consists of."""

    point: str
    batch: int
    processes: tuple[int, ...]

    def comes(self, point: str, batch: int) -> None:
        if (point, batch) == (self.point, self.batch):
            for process in (*self.processes, os.getpid()):
                os.kill(process, signal.SIGKILL)

    @contextmanager
    def of_commit(self, batch: int) -> Iterator[None]:
        """Around the commit of a micro-batch."""
        self.comes("before", batch)
        ask = Table._do_commit

        def ask_and_die(*arguments: Any, **more: Any) -> None:
            ask(*arguments, **more)
            self.comes("inside", batch)

        Table._do_commit = ask_and_die  # type: ignore[method-assign]
        try:
            yield
        finally:
            Table._do_commit = ask  # type: ignore[method-assign]
        self.comes("after", batch)


class DoomedReader(TableStreamReader):
    """Counts the micro-batches that it plans; the first one is the next after those that are committed."""

    doom: Doom
    planned: int

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self.doom.comes("plan", self.planned)
        self.planned += 1
        return super().partitions(start, end)


class DoomedTaskWriter(DataSourceStreamArrowWriter):
    def __init__(self, made: tuple[Any, ...], doom: Doom) -> None:
        self._made = made
        self._doom = doom

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        kind, arguments = self._made
        message: Any = kind(*arguments).write(iterator)
        self._doom.comes("task", message.batch_id)
        return message  # type: ignore[no-any-return]


class DoomedWriter(TableStreamWriter):
    doom: Doom

    def __reduce__(self) -> tuple[Any, ...]:
        return DoomedTaskWriter, (super().__reduce__(), self.doom)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        with self.doom.of_commit(batchId):
            super().commit(messages, batchId)


class DoomedSource(DefaultSource):
    doom: ClassVar[Doom]
    committed: ClassVar[int]

    @classmethod
    def name(cls) -> str:
        return "doomed"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        reader = DoomedReader(self._table(), schema, self.catalogs)
        reader.doom, reader.planned = self.doom, self.committed
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        writer = DoomedWriter(self.options, self.catalogs, schema, overwrite)
        writer.doom = self.doom
        return writer


@dataclass
class DoomedRows:
    """The function of a task that writes to a table of the SQL catalog."""

    function: Any
    doom: Doom
    buckets: tuple[bytes, ...] = ()
    counters: Any = None
    title: str = "doomed"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        found = list(self.function(batches))
        self.doom.comes("task", int(context.getLocalProperty("streaming.sql.batchId") or -1))
        yield from found


class DoomedStreamWrite(StreamWrite):
    doom: ClassVar[Doom]

    def function(self, command: Any, output: Any) -> Any:
        return DoomedRows(super().function(command, output), self.doom)

    def commitEpoch(self, epoch: int, messages: Any) -> None:  # noqa: N802
        with self.doom.of_commit(int(epoch)):
            super().commitEpoch(epoch, messages)


def main(folder: Path, way: str, point: str = "", batch: int = -1) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.daemon.module", "formatkit.spark.daemon")
        .config("spark.sql.streaming.pollingDelay", "1ms")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    jvm: Any = spark.sparkContext._jvm
    doom = Doom(point, batch, (int(jvm.java.lang.ProcessHandle.current().pid()), os.getpid()))
    committed = len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))
    spark.dataSource.register(type("Doomed", (DoomedSource,), {"doom": doom, "committed": committed}))
    tables = StreamTables(folder)
    rows = (
        spark.readStream.format("doomed")
        .options(**tables.options(streaming_max_files_per_micro_batch=1))
        .load("db.source")
    )
    writer = rows.writeStream.option("checkpointLocation", (folder / "checkpoint").as_uri()).trigger(availableNow=True)
    if way == "source":
        query = writer.format("doomed").options(**tables.options()).start("db.sink")
    else:
        formatkit.spark.register(spark, fk=tables.catalog)
        DoomedStreamWrite.doom = doom
        setattr(current_table, "StreamWrite", DoomedStreamWrite)  # noqa: B010 - it is not for others to see
        query = writer.toTable("fk.db.sink")
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] if sys.argv[3:] else "", int(sys.argv[4]) if sys.argv[4:] else -1)
