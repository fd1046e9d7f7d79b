"""Tasks that fail, die or dawdle after their files are complete: the worst moment, as no message is sent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import pyarrow as pa
from pyspark import TaskContext

from formatkit.scan.buckets import Bucket
from formatkit.spark.jobs.engine import SparkEngine
from formatkit.spark.writing.task import TaskFiles, WriteTask
from formatkit.write.jobs import Attempt
from formatkit.write.operations.rewrite_task import RewriteTask, RewrittenFiles

__all__ = ["Doom", "DoomedEngine", "DoomedTask"]

Doom = Literal["raise", "kill worker", "dawdle"]
_DAWDLES_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class DoomedTask(WriteTask):
    """Writes as others do; the first attempts of the second partition come to grief then.

    Attributes:
        doom: What becomes of them.
        attempts: How many of them.
    """

    doom: Doom = "raise"
    attempts: int = 1

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskFiles:
        written = super().write(batches)
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and context.attemptNumber() < self.attempts:
            match self.doom:
                case "raise":
                    raise RuntimeError("planted")
                case "kill worker":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "dawdle":
                    time.sleep(_DAWDLES_SECONDS)
        return written


class DoomedEngine(SparkEngine):
    """Runs doomed rewrites."""

    def run(self, work: Sequence[Any], task: Any, tell: Any = None) -> Generator[tuple[int, Any], None, None]:
        values = {field.name: getattr(task, field.name) for field in fields(task)}
        return super().run(work, DoomedRewrite(**values), tell)


@dataclass(frozen=True, kw_only=True)
class DoomedRewrite(RewriteTask):
    """Rewrites as others do; the worker dies whenever the second piece is complete."""

    def __call__(self, work: Bucket, attempt: Attempt) -> RewrittenFiles:
        written = super().__call__(work, attempt)
        if attempt.piece == 1 and TaskContext.get() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return written
