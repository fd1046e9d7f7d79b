"""Tables that streams read and write, and queries that run until everything is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import formatkit
from support.iceberg_tables import closed_at_last

__all__ = ["StreamTables", "rows"]

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "kind", StringType()))


def rows(*ids: int, kind: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "kind": [kind] * len(ids)})


@dataclass
class StreamTables:
    """Tables of a catalog that any process can open, and checkpoints beside them."""

    folder: Path
    catalog: SqlCatalog = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = closed_at_last(SqlCatalog("local", **self.properties))
        self.catalog.create_namespace_if_not_exists("db")

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": self.folder.as_uri()}

    def new(self, name: str = "source", **properties: str) -> Table:
        return self.catalog.create_table(f"db.{name}", SCHEMA, properties=properties)

    def load(self, name: str) -> Table:
        return self.catalog.load_table(f"db.{name}")

    def append(self, table: Table, *parts: pa.Table) -> list[int]:
        """A snapshot for each; returns their ids."""
        table.refresh()
        ids = []
        for part in parts:
            snapshot = formatkit.append(table, part)
            assert snapshot is not None
            ids.append(snapshot.snapshot_id)
        return ids

    def append_files(self, table: Table, parts: Iterable[pa.Table]) -> int:
        """One snapshot with a file for each."""
        from formatkit.write import TableWriteConfig, TableWriter
        from support.commits import append

        files: list[DataFile] = []
        for part in parts:
            with TableWriter(TableWriteConfig.of(table.metadata), table.io) as writer:
                for batch in part.to_batches():
                    writer.write(batch)
                files += writer.close()
        return append(table, *files).snapshot_id

    def options(self, **more: Any) -> dict[str, str]:
        """Options of the data source, with the catalog; an underscore stands for a hyphen."""
        given = {f"catalog.{name}": value for name, value in self.properties.items()}
        return {"catalog": "local", **given, **{name.replace("_", "-"): str(value) for name, value in more.items()}}

    def stream(self, spark: SparkSession, name: str = "source", **options: Any) -> DataFrame:
        return spark.readStream.format("formatkit").options(**self.options(**options)).load(f"db.{name}")

    def read(
        self, spark: SparkSession, name: str = "source", checkpoint: str = "checkpoint", **options: Any
    ) -> Batches:
        """Everything that is there, in micro-batches."""
        return self.run(self.stream(spark, name, **options), checkpoint)

    def run(self, frame: DataFrame, checkpoint: str = "checkpoint") -> Batches:
        batches = Batches()
        query = batches.start(frame, self.folder / checkpoint)
        query.awaitTermination()
        return batches


@dataclass
class Batches:
    """The rows of micro-batches, sorted."""

    rows: list[list[tuple[Any, ...]]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def start(self, frame: DataFrame, checkpoint: Path) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", checkpoint.as_uri())
        return writer.trigger(availableNow=True).start()

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        self.rows.append(sorted(tuple(row) for row in frame.collect()))
        self.ids.append(batch_id)

    @property
    def first_columns(self) -> list[list[Any]]:
        return [[row[0] for row in batch] for batch in self.rows]
