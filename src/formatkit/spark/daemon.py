"""Spark's daemon for Python workers, which imports all that tasks need: workers are forks of it, and start with that.

Spark runs it where ``spark.python.daemon.module`` is ``formatkit.spark.daemon``.
"""

from __future__ import annotations

import gc
import os

if "PYSPARK_EXECUTOR_MEMORY_MB" in os.environ:
    # Spark limits the address space of workers, of which Arrow's usual allocator would keep a GiB for later.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

import pyiceberg.table  # noqa: F401 - imported for the workers
import pyspark.daemon

import formatkit.formats.parquet.plugin
import formatkit.scan
import formatkit.spark.worker
import formatkit.spark.writing.task  # noqa: F401 - imported for the workers

__all__: list[str] = []

if __name__ == "__main__":
    # Workers share with the daemon what is never written to, and collections of garbage would write to it.
    gc.freeze()
    pyspark.daemon.manager()
