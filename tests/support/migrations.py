"""A table with a past, and its migration from format to format by commands that are submitted to a Spark cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

import formatkit
from formatkit.cli import __main__ as program
from support.repository import ROOT
from support.spark_cluster import JAVA_OPTIONS

__all__ = ["Migration"]

_ROUNDS = 4
_SCHEMA = Schema(
    NestedField(1, "part", IntegerType(), required=True),
    NestedField(2, "id", LongType(), required=True),
    NestedField(3, "count", IntegerType()),
    NestedField(4, "gone", StringType()),
)


@dataclass
class Migration:
    """A table of which each step changes schema, rows and formats.

    Attributes:
        folder: Where it is.
        master: The cluster.
        files: How many data files it has before each step; a multiple of four.
        rows_per_file: How many rows each of them has.
    """

    folder: Path
    master: str
    files: int
    rows_per_file: int = 50
    _next: int = field(default=0, init=False)
    _added: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._catalog = SqlCatalog("store", **self._properties)
        self._catalog.create_namespace("db")
        spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
        self._table = self._catalog.create_table("db.t", _SCHEMA, partition_spec=spec)

    @property
    def table(self) -> Table:
        return self._table.refresh()

    @property
    def data_files(self) -> int:
        return len({task.location for task in formatkit.scan(self.table).tasks})

    @property
    def formats(self) -> set[str]:
        return {task.file_format for task in formatkit.scan(self.table).tasks}

    def grow(self) -> None:
        """Append until there are as many files as wanted, with another schema each time, and delete rows."""
        while (missing := self.files - self.data_files) > 0:
            self._evolve()
            missing = min(self.files // _ROUNDS, missing)
            formatkit.append(self.table, self._rows(missing))
            # Every eleventh row of what is new, by files of deletes that stay until the next migration.
            formatkit.delete(self.table, f"id in ({', '.join(map(str, range(self._next - 1, self._next - 200, -11)))})")

    def rows(self) -> list[dict[str, Any]]:
        """All rows by their ids, as one process reads them."""
        return formatkit.scan(self.table).to_arrow().sort_by("id").to_pylist()

    def migrate(self, file_format: str) -> dict[str, Any]:
        """Rewrite all files by a program that spark-submit runs on the cluster; returns what that says."""
        home = Path(pyspark.__path__[0])
        settings = {
            "spark.cores.max": "2",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.executor.extraJavaOptions": JAVA_OPTIONS,
            "spark.executorEnv.PYTHONPATH": str(ROOT / "src"),
        }
        command = [
            *(str(home / "bin" / "spark-submit"), "--master", self.master),
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            *(str(program.__file__), "rewrite", "db.t", "--catalog", "store"),
            *(word for name, value in self._properties.items() for word in ("-p", f"{name}={value}")),
            *("--engine", "spark", "--format", file_format, "--set-default", "--max-commits", "2", "--json"),
        ]
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT / "src"),
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return dict(json.loads(done.stdout.splitlines()[-1]))

    @property
    def _properties(self) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": (self.folder / "warehouse").as_uri(),
        }

    def _evolve(self) -> None:
        """Widen, rename, drop and add columns, one after the other."""
        with self.table.update_schema() as update:
            match self._added:
                case 0:
                    pass
                case 1:
                    update.update_column("count", LongType())
                case 2:
                    update.rename_column("count", "number")
                case 3:
                    update.delete_column("gone")
                case _:
                    update.add_column(f"added{self._added}", DoubleType())
        self._added += 1

    def _rows(self, partitions: int) -> pa.Table:
        count = partitions * self.rows_per_file
        ids = range(self._next, self._next + count)
        self._next += count
        columns: dict[str, pa.Array[Any]] = {
            "part": pa.array([position // self.rows_per_file for position in range(count)], pa.int32()),
            "id": pa.array(ids, pa.int64()),
        }
        for name in (column.name for column in self.table.schema().columns if column.name not in columns):
            kind = self.table.schema().find_type(name)
            values = [None if id_ % 7 == 0 else id_ % 1000 for id_ in ids]
            match kind:
                case StringType():
                    columns[name] = pa.array([None if value is None else f"v{value}" for value in values])
                case DoubleType():
                    columns[name] = pa.array(values, pa.float64())
                case IntegerType():
                    columns[name] = pa.array(values, pa.int32())
                case _:
                    columns[name] = pa.array(values, pa.int64())
        return pa.table(columns)
