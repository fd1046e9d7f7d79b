"""Writes of Spark at random, the same on plain rows, and tables whose storage fails them in executors.

Rows are (id, part, v) with an id of its own each.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import formatkit
import formatkit.spark
from formatkit.write.commit import enable_version3
from support.iceberg_tables import local_path
from support.orphans import files_of, make_old
from support.references import referenced_locations
from support.written_tables import ALL_FORMATS, spec

__all__ = ["FAULTS", "NAME", "Faults", "FaultyFileIO", "Rows", "Scenario", "check_leftovers", "random_scenario"]

NAME = "db.faulty"
FAULTS = ("raise", "kill worker", "kill executor", "dawdle")
_FOLDER = "faulty.folder"
_DAWDLES_SECONDS = 120
_PARTS = ("a", "b", "c", None)
_MODES = (
    "append",
    "overwrite",
    "overwrite where",
    "overwrite-partitions",
    "upsert",
    "merge",
    "sql merge",
    "sql insert-only merge",
    "sql update",
    "sql delete",
)

_ARROW = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])  # type: ignore[arg-type]

Rows = dict[int, tuple[str | None, int]]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A table with rows, and one write to it. Can be told as JSON."""

    seed: str
    mode: str
    merge_mode: str
    spec: str
    file_format: str
    version: int

    @property
    def _random(self) -> Random:
        return Random(self.seed)

    @property
    def before(self) -> Rows:
        random = self._random
        return {id_: (random.choice(_PARTS), random.randrange(5)) for id_ in random.sample(range(60), 30)}

    @property
    def incoming(self) -> Rows:
        random = Random(f"{self.seed} incoming")
        known = random.sample(sorted(self.before), 8)
        new = [100 + id_ for id_ in random.sample(range(50), 12)]
        ids = new if self.mode in ("append", "overwrite", "overwrite where", "overwrite-partitions") else known + new
        return {id_: (random.choice(_PARTS), 10 + random.randrange(5)) for id_ in ids}

    def after(self) -> Rows:
        """What the table holds when the write is done."""
        before, incoming = self.before, self.incoming
        match self.mode:
            case "overwrite":
                return incoming
            case "overwrite where":
                return {id_: row for id_, row in before.items() if id_ >= 30} | incoming
            case "overwrite-partitions":
                replaced = {self._place(id_, row) for id_, row in incoming.items()}
                return {id_: row for id_, row in before.items() if self._place(id_, row) not in replaced} | incoming
            case "sql insert-only merge":
                return incoming | before
            case "sql update":
                return {id_: (part, v + 1) if id_ % 3 == 0 else (part, v) for id_, (part, v) in before.items()}
            case "sql delete":
                return {id_: row for id_, row in before.items() if id_ % 3 != 0}
            case "merge" | "sql merge":
                matched = {id_ for id_ in incoming if id_ in before and id_ % 2 == 0}
                return {id_: row for id_, row in (before | incoming).items() if id_ not in matched}
            case _:
                return before | incoming

    def _place(self, id_: int, row: tuple[str | None, int]) -> Any:
        return {
            "none": None,
            "identity": row[0],
            "bucket": BucketTransform(3).transform(LongType())(id_),
        }[self.spec]

    def create(self, catalog: Catalog) -> Table:
        """The table with the rows that it has before."""
        enable_version3()
        specs = {
            "none": PartitionSpec(),
            "identity": spec((2, IdentityTransform())),
            "bucket": spec((1, BucketTransform(3))),
        }
        modes = {f"write.{command}.mode": self.merge_mode for command in ("delete", "update", "merge")}
        told = {"format-version": str(self.version), "write.format.default": self.file_format}
        table = catalog.create_table(NAME, _schema(), partition_spec=specs[self.spec], properties=told | modes)
        rows = [{"id": id_, "part": part, "v": v} for id_, (part, v) in self.before.items()]
        for half in (rows[::2], rows[1::2]):
            formatkit.append(table, pa.Table.from_pylist(half, _ARROW))
        return table

    def run(self, spark: SparkSession, catalog: Catalog, key: str | None = None) -> None:
        """Do the write; `key` is its idempotency key, where it can have one."""
        source = self._frame(spark)
        if self.mode.startswith("sql"):
            formatkit.spark.register(spark, faulty=catalog)
            source.createOrReplaceTempView("incoming")
            spark.sql(_STATEMENTS[self.mode])
            return
        table = catalog.load_table(NAME)
        common: dict[str, Any] = {"idempotency_key": key, "file_format": self.file_format}
        match self.mode:
            case "upsert":
                formatkit.spark.write(source, table, "upsert", join_columns="id", merge_mode=self.merge_mode, **common)
            case "merge":
                matched = [formatkit.Delete("source.even = true"), formatkit.Update()]
                even = source.selectExpr("*", "id % 2 = 0 as even")
                formatkit.spark.merge(even, table, "id", matched, mode=self.merge_mode, **common)  # type: ignore[arg-type]
            case "overwrite where":
                formatkit.spark.write(source, table, "overwrite", where="id < 30", **common)
            case _:
                formatkit.spark.write(source, table, self.mode, **common)  # type: ignore[call-overload]

    def _frame(self, spark: SparkSession) -> DataFrame:
        rows = [(id_, part, v) for id_, (part, v) in self.incoming.items()]
        return spark.createDataFrame(rows, "id bigint, part string, v bigint").repartition(3)

    def told(self) -> dict[str, Any]:
        return asdict(self)


_STATEMENTS = {
    "sql merge": f"merge into faulty.{NAME} t using incoming s on t.id = s.id "
    "when matched and s.id % 2 = 0 then delete when matched then update set * when not matched then insert *",
    "sql insert-only merge": f"merge into faulty.{NAME} t using incoming s on t.id = s.id "
    "when not matched then insert *",
    "sql update": f"update faulty.{NAME} set v = v + 1 where id % 3 = 0",
    "sql delete": f"delete from faulty.{NAME} where id % 3 = 0",
}


def _schema() -> Schema:
    return Schema(
        NestedField(1, "id", LongType()), NestedField(2, "part", StringType()), NestedField(3, "v", LongType())
    )


def random_scenario(random: Random, mode: str | None = None) -> Scenario:
    """A write at random; of the mode, if one is given."""
    return Scenario(
        seed=str(random.random()),
        mode=mode or random.choice(_MODES),
        merge_mode=random.choice(["copy-on-write", "merge-on-read"]),
        spec=random.choice(["none", "identity", "bucket"]),
        file_format=random.choice(ALL_FORMATS),
        version=random.choice([2, 3]),
    )


@dataclass(frozen=True)
class Faults:
    """What is planned for executors that write a table's files, and what came of it; processes agree by a folder."""

    folder: Path

    def properties(self) -> dict[str, str]:
        """Of a catalog whose tables are written by `FaultyFileIO`."""
        return {"py-io-impl": f"{__name__}.{FaultyFileIO.__name__}", _FOLDER: str(self.folder)}

    def plan(self, fault: str, *, file: int = 0, times: int = 1, processes: Sequence[int] = ()) -> None:
        """Let an attempt meet a fault when its file of a number is complete; and the next attempts of the same task.

        Args:
            fault: One of `FAULTS`, or ``kill driver``.
            file: Of the files that tasks complete from now on.
            times: How many attempts.
            processes: Those of the driver.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.iterdir():
            old.unlink()
        (self.folder / "fault").write_text("\n".join([fault, *map(str, processes)]))
        (self.folder / "skip").write_text(str(file))
        for number in range(times):
            (self.folder / f"armed-{number}").touch()

    def disarm(self) -> None:
        for armed in self.folder.glob("armed-*"):
            armed.unlink(missing_ok=True)

    def met(self) -> set[int]:
        """The ids of the attempts that met it."""
        return {int(path.name.removeprefix("met-")) for path in self.folder.glob("met-*")}

    def file_is_complete(self) -> None:
        """Called in an executor's process."""
        context = TaskContext.get()
        armed = sorted(self.folder.glob("armed-*"))
        if context is None or not armed or not self._is_victim(f"{context.stageId()}/{context.partitionId()}"):
            return
        try:
            armed[0].unlink()
        except FileNotFoundError:
            return
        (self.folder / f"met-{context.taskAttemptId()}").touch()
        fault, *processes = (self.folder / "fault").read_text().splitlines()
        match fault:
            case "raise":
                raise OSError("the storage is out of order")
            case "kill worker":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill executor":
                os.kill(_executor(), signal.SIGKILL)
                time.sleep(_DAWDLES_SECONDS)
            case "kill driver":
                for process in processes:
                    os.kill(int(process), signal.SIGKILL)
            case "dawdle":
                time.sleep(_DAWDLES_SECONDS)

    def _is_victim(self, task: str) -> bool:
        victim = self.folder / "victim"
        if not victim.exists():
            skip = int((self.folder / "skip").read_text())
            if skip:
                (self.folder / "skip").write_text(str(skip - 1))
                return False
            with suppress(FileExistsError), victim.open("x") as chosen:
                chosen.write(task)
        return victim.read_text() == task


def _executor() -> int:
    """The Java process of the executor, which is the parent of the daemon that forks Python's workers."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    executor = int(daemon.rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    return executor


class FaultyFileIO(PyArrowFileIO):
    """Local files; what is planned happens when one of a task is complete: the worst moment, as none is reported."""

    def new_output(self, location: str) -> PyArrowFile:
        plain = super().new_output(location)
        made = _FaultyFile(plain.location, plain._path, plain._filesystem)
        made.faults = Faults(Path(self.properties[_FOLDER]))
        return made


class _FaultyFile(PyArrowFile):
    faults: Faults

    def create(self, overwrite: bool = False) -> Any:
        return _FaultyStream(super().create(overwrite), self.faults.file_is_complete)


class _FaultyStream:
    def __init__(self, stream: Any, complete: Callable[[], None]) -> None:
        self._stream = stream
        self._complete = complete

    def close(self) -> None:
        is_open = not self._stream.closed
        self._stream.close()
        if is_open:
            self._complete()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _FaultyStream:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def rows_of(table: Table) -> Rows:
    """The rows that one process reads; each of them once."""
    found = formatkit.scan(table).to_arrow().to_pylist()
    rows = {row["id"]: (row["part"], row["v"]) for row in found}
    assert len(rows) == len(found), f"a row is there twice: {sorted(row['id'] for row in found)}"
    return rows


def unreferenced(table: Table) -> set[Path]:
    """Data and delete files that no snapshot has."""
    referenced = {local_path(each) for each in referenced_locations(table)}
    return {path for path in files_of(local_path(f"{table.location()}/data")) if path not in referenced}


def check_leftovers(table: Table, rows: Mapping[int, Any], folder: Path, where: object) -> None:
    """`clean_orphans` finds everything that no snapshot has, and nothing else."""
    make_old(local_path(table.location()))
    journal = folder / f"{uuid4()}.jsonl"
    report = formatkit.clean_orphans(table, dry_run=False, location_is_exclusive=True, journal=journal)
    assert (report.failures, report.kept) == ({}, {}), where
    referenced = {local_path(each) for each in referenced_locations(table)}
    assert files_of(local_path(table.location())) == referenced, where
    assert rows_of(table) == rows, where
