"""The trap of the wrong interpreter: workers that run a Python in which formatkit is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from formatkit.errors import ConfigurationError
from formatkit.spark.session import is_connect

__all__ = ["check_interpreter"]

_PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec('formatkit') is None)"
_PATIENCE_SECONDS = 60


def check_interpreter(spark: SparkSession) -> None:
    """Say so if the workers of a session cannot import formatkit, before a task says it in a traceback of its own.

    Workers of a local session run on this machine, so that it is known. Those of a cluster may have another Python
    under the same name: there it is a warning.

    Raises:
        ConfigurationError: They cannot.
    """
    if is_connect(spark):
        return
    context: Any = spark.sparkContext
    chosen = context.pythonExec
    if _is_this(chosen) or _has_formatkit(chosen):
        return
    message = (
        f"Spark's workers run {chosen}, which has no formatkit; this program runs {sys.executable}. Set PYSPARK_PYTHON "
        "in the environment, or spark.pyspark.python, to an interpreter that has it, before the session is made"
    )
    if context.master.startswith("local"):
        raise ConfigurationError(message)
    warnings.warn(f"{message}; or install it there, if workers have another one of this name", stacklevel=3)


def _is_this(chosen: str) -> bool:
    found = shutil.which(chosen)
    # Links are not followed: the interpreters of two environments may be links to the same file.
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)  # noqa: PTH100


@lru_cache(maxsize=16)
def _has_formatkit(chosen: str) -> bool:
    try:
        done = subprocess.run([chosen, "-c", _PROBE], capture_output=True, timeout=_PATIENCE_SECONDS, check=False)  # noqa: S603 - Spark runs it as well
    except OSError:
        return False
    except subprocess.TimeoutExpired:
        return True
    return done.returncode == 0
