"""Tasks of writes that fail, die or dawdle after their files are complete: the worst moment, as no message is sent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyspark import TaskContext

from formatkit.spark.writing.task import TaskFiles, WriteTask

__all__ = ["Doom", "DoomedTask"]

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
