"""Iceberg tables as Spark DataFrames: planned here, read by the executors, one Spark partition a bucket."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from formatkit.errors import PluginLoadError

if TYPE_CHECKING:
    from formatkit.spark.aggregation import aggregate, group_in_buckets
    from formatkit.spark.buckets import CoBuckets, co_bucketed, map_buckets
    from formatkit.spark.catalogs import register
    from formatkit.spark.frames import SparkScan, dataframe, read
    from formatkit.spark.jobs.engine import SparkEngine
    from formatkit.spark.writing.api import WriteResult, write
    from formatkit.spark.writing.merge import merge

__all__ = [
    "CoBuckets",
    "SparkEngine",
    "SparkScan",
    "WriteResult",
    "aggregate",
    "co_bucketed",
    "dataframe",
    "group_in_buckets",
    "map_buckets",
    "merge",
    "read",
    "register",
    "write",
]

if find_spec("pyspark") is None:
    raise PluginLoadError("formatkit.spark needs PySpark, which is not installed: pip install 'formatkit[spark]'")

# Loaded when they are first used: executors import this package for the worker's part only.
_HOMES = {
    "CoBuckets": "formatkit.spark.buckets",
    "SparkEngine": "formatkit.spark.jobs.engine",
    "SparkScan": "formatkit.spark.frames",
    "WriteResult": "formatkit.spark.writing.api",
    "aggregate": "formatkit.spark.aggregation",
    "co_bucketed": "formatkit.spark.buckets",
    "dataframe": "formatkit.spark.frames",
    "group_in_buckets": "formatkit.spark.aggregation",
    "map_buckets": "formatkit.spark.buckets",
    "merge": "formatkit.spark.writing.merge",
    "read": "formatkit.spark.frames",
    "register": "formatkit.spark.catalogs",
    "write": "formatkit.spark.writing.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'formatkit.spark' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
