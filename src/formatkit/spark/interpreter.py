"""The trap of the wrong interpreter: workers that run a Python in which formatkit is not installed, or another one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

import formatkit
from formatkit.errors import ConfigurationError
from formatkit.spark.session import is_connect

__all__ = ["check_interpreter"]

_PROBE = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
found = {"python": "%d.%d" % sys.version_info[:2], "there": find_spec("formatkit") is not None}
try:
    found["formatkit"] = version("formatkit")
except PackageNotFoundError:
    pass
print(json.dumps(found))
"""
_PATIENCE_SECONDS = 60
_SETTING = "spark.pyspark.python"


def check_interpreter(spark: SparkSession) -> None:
    """Say so if the workers of a session cannot run formatkit, before a task says it in a traceback of its own.

    Workers of a local session run on this machine, so that it is known. Those of a cluster may have another Python
    under the same name: there it is a warning, and workers that cannot run formatkit say so themselves, as those of
    Spark Connect do.

    Raises:
        ConfigurationError: They cannot.
    """
    if is_connect(spark):
        return
    context: Any = spark.sparkContext
    chosen = context.pythonExec
    local = context.master.startswith("local")
    # An interpreter that is not here may be part of what Spark unpacks for executors.
    if _is_this(chosen) or not (local or shutil.which(chosen)):
        return
    reason = _obstacle(chosen, _sent_path(context))
    if reason is None:
        return
    message = (
        f"Spark's workers run {chosen}, which {reason}; this program runs {sys.executable}. Set PYSPARK_PYTHON in the "
        f"environment to an interpreter that fits before the session is made, or give {_SETTING} to spark-submit"
    )
    other = context.getConf().get(_SETTING)
    if other not in (None, chosen):
        message += f" ({_SETTING} is {other}, which only spark-submit looks at)"
    if local:
        raise ConfigurationError(message)
    warnings.warn(f"{message}; or ignore this, if workers have another one of this name", stacklevel=3)


def _is_this(chosen: str) -> bool:
    found = shutil.which(chosen)
    # Links are not followed: the interpreters of two environments may be links to the same file.
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)  # noqa: PTH100


def _sent_path(context: Any) -> str:
    """Where workers of this machine look for modules: in what ``--py-files`` named, and as this process does."""
    root = Path(SparkFiles.getRootDirectory())
    sent = [str(root / name) for name in context._python_includes or ()]  # noqa: SLF001
    return os.pathsep.join(filter(None, [*sent, os.environ.get("PYTHONPATH")]))


@lru_cache(maxsize=16)
def _obstacle(chosen: str, path: str) -> str | None:
    """What keeps an interpreter from running formatkit as this process has it."""
    try:
        done = subprocess.run(  # noqa: S603 - Spark runs it as well
            [chosen, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        found = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return None
    except (OSError, ValueError) as error:
        return f"is no Python that can be run ({error})"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if found["python"] != python:
        return f"is Python {found['python']} and not {python}"
    if not found["there"]:
        return "has no formatkit"
    if "formatkit" not in found:
        return "has the modules of formatkit without its metadata, by which formats are found"
    version = formatkit.__version__
    return None if found["formatkit"] == version else f"has formatkit {found['formatkit']} and not {version}"
