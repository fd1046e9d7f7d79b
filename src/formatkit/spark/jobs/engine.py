"""Runs the pieces of a job on Spark: a Spark job with a single task for each, as many at a time as Spark has place for.

So each piece is reported when it is finished, on classic sessions and with Spark Connect alike, and Spark tries it
again where it fails. Rows stay inside of the Python worker: only the pieces and what they report cross to Spark.
"""

from __future__ import annotations

import pickle
import re
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import TaskContext, inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from formatkit.errors import FormatkitError, InternalError, StorageError, without_secrets
from formatkit.spark.interpreter import check_interpreter
from formatkit.spark.session import configuration_of, map_each, parallelism
from formatkit.spark.versions import check_jobs
from formatkit.spark.worker import work_in
from formatkit.spark.writing.jobs import engine_properties, speculates
from formatkit.spark.writing.task import MESSAGE_COLUMN
from formatkit.spark.writing.task_errors import error_in, noted_errors
from formatkit.write.jobs import Attempt, Task

__all__ = ["SparkEngine"]

W = TypeVar("W")
R = TypeVar("R")

_ERROR_LINE = re.compile(r"[\w.]+(?:Error|Exception|Interrupt)\b")
_MAX_THREADS = 256
_MESSAGES = StructType([StructField(MESSAGE_COLUMN, BinaryType(), True)])


@dataclass(frozen=True)
class _Failure:
    """What a task raised that would be raised again in every attempt."""

    error: FormatkitError


@dataclass
class _RunPiece:
    """The function that `mapInArrow` runs: a piece of work in, one row with what the task returns out, pickled.

    Attributes:
        task: What to do, pickled.
        title: How plans call it.
        buckets: The pickled work, where tasks are told its number only.
    """

    task: bytes = field(repr=False)
    title: str
    buckets: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def __name__(self) -> str:  # where Spark looks for the title
        return self.title

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task: Task[Any, Any] = pickle.loads(self.task)  # noqa: S301 - the driver made it
        for piece, work in work_in(rows, self.buckets):
            pickled = pickle.dumps(_attempted(task, piece, work), protocol=pickle.HIGHEST_PROTOCOL)
            yield pa.RecordBatch.from_arrays([pa.array([pickled], pa.binary())], names=[MESSAGE_COLUMN])


def _attempted(task: Task[W, R], piece: int, work: W) -> R | _Failure:
    context = TaskContext.get()
    if context is None:
        raise InternalError("a piece of a job ran outside of a task of Spark")
    try:
        with noted_errors():
            return task(work, Attempt(piece, context.taskAttemptId(), retried=context.attemptNumber() > 0))
    except StorageError:
        raise  # the next attempt may have more luck
    except FormatkitError as error:
        return _Failure(error)


class SparkEngine:
    """Runs the pieces of jobs on the executors of a session: ``formatkit.rewrite(table, engine=SparkEngine(spark))``.

    Args:
        spark: A session, classic or Connect.
        pieces: How many pieces run side by side. If left out, work is cut for as many cores as the session knows of,
            and Spark runs as many pieces as it has place for.

    Raises:
        UnsupportedError: This PySpark is too old.
        ConfigurationError: Workers cannot run formatkit.
    """

    threads = 1

    def __init__(self, spark: SparkSession, pieces: int | None = None) -> None:
        check_jobs()
        check_interpreter(spark)
        self._spark = spark
        self._pieces = pieces
        self._configuration = configuration_of(spark)

    @property
    def parallelism(self) -> int:
        return self._pieces or parallelism(self._spark)

    def may_leave_files(self, *, failed: bool) -> bool:
        return failed or speculates(self._configuration)

    @property
    def properties(self) -> Mapping[str, str]:
        return {"engine-name": "spark", **engine_properties(self._spark, self._configuration)}

    def run(
        self, work: Sequence[W], task: Task[W, R], tell: Callable[[int, int], None] | None = None
    ) -> Generator[tuple[int, R], None, None]:
        """As in `Engine`. What tasks do cannot be seen from here until they are finished, so that nothing is told."""
        tag = f"formatkit-{uuid.uuid4()}"
        title = f"formatkit {type(task).__name__}"

        pickled = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)

        def run_one(piece: int) -> R:
            self._spark.addTag(tag)
            function = _RunPiece(pickled, f"{title} {piece + 1} of {len(work)}")
            # The threads of the pool are this engine's own, so that nobody else gets the tag.
            reported: R = _result(map_each(self._spark, [(piece, work[piece])], function, _MESSAGES).collect())
            return reported

        # With the caller's local properties, such as the scheduler's pool.
        inherited: Callable[[int], R] = inheritable_thread_target(self._spark)(run_one)
        # Executors may still be on their way, so that Spark decides how many tasks there is place for.
        pool = ThreadPoolExecutor(max(1, min(self._pieces or _MAX_THREADS, len(work))), "formatkit-piece")
        futures: dict[Future[R], int] = {}
        try:
            futures = {pool.submit(inherited, piece): piece for piece in range(len(work))}
            for future in as_completed(futures):
                yield futures[future], _typed(future)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if not all(future.done() for future in futures):
                with suppress(PySparkException, Py4JError):
                    self._spark.interruptTag(tag)
            pool.shutdown(wait=True)


def _result(rows: Sequence[Any]) -> Any:
    if len(rows) != 1 or rows[0][0] is None:
        raise InternalError(f"a task of a job reported {len(rows)} results instead of one; nothing was committed")
    found = pickle.loads(rows[0][0])  # noqa: S301 - a task of ours made it
    if isinstance(found, _Failure):
        raise found.error
    return found


def _typed(future: Future[R]) -> R:
    """What a piece returned. Errors of Spark quote the traceback of the worker, whose last line counts."""
    try:
        return future.result()
    except (PySparkException, Py4JError) as error:
        found = error_in(str(error))
        if found is not None:
            raise found from error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if _ERROR_LINE.match(line)), lines[0] if lines else "")
        message = f"a task of the job failed in every attempt that Spark allows (spark.task.maxFailures): {said}"
        raise FormatkitError(without_secrets(message)) from error
