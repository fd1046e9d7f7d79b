"""A streaming query from one table to another whose driver can be killed at a chosen point of a chosen micro-batch.

    python -m support.doomed_streams FOLDER [POINT BATCH]

It ends by itself when all rows of the source are read.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from formatkit.spark.streaming.reader import TableStreamReader
from formatkit.spark.streaming.writer import TableStreamWriter
from pyspark_formatkit import DefaultSource
from support.streams import StreamTables

__all__ = ["POINTS"]

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
        self.doom.comes("before", batchId)
        ask = Table._do_commit

        def ask_and_die(*arguments: Any, **more: Any) -> None:
            ask(*arguments, **more)
            self.doom.comes("inside", batchId)

        Table._do_commit = ask_and_die  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            Table._do_commit = ask  # type: ignore[method-assign]
        self.doom.comes("after", batchId)


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


def main(folder: Path, point: str = "", batch: int = -1) -> None:
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
    query = (
        rows.writeStream.format("doomed")
        .options(**tables.options())
        .option("checkpointLocation", (folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start("db.sink")
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else "", int(sys.argv[3]) if sys.argv[3:] else -1)
