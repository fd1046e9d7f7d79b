"""Runs features on the PySpark that this interpreter finds, and prints what came of each as a line of JSON.

Usage: python -m sparkversions [FEATURE …]; all of them by default.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path

from pyspark.sql import SparkSession
from sparkversions.features import FEATURES, Feature, Tables, WithoutError

from formatkit.errors import FormatkitError

# What Spark says of a refusal of ours in one of its Python processes or in a call of the catalog, and of a source that
# it does not know, as versions without data sources of Python do.
_REFUSALS = re.compile(r"\bUnsupportedError: .+|\[DATA_SOURCE_NOT_FOUND\] .+")


def main() -> int:
    names = sys.argv[1:] or list(FEATURES)
    spark = _session()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            began = time.monotonic()
            outcome, message = _outcome(FEATURES[name], Tables(spark, Path(folder) / name))
            told = {"feature": name, "outcome": outcome, "message": message, "seconds": time.monotonic() - began}
            print(json.dumps(told), flush=True)
    spark.stop()
    return 0


def _outcome(feature: Feature, tables: Tables) -> tuple[str, str]:
    try:
        feature.run(tables)
    except WithoutError as reason:
        return "without", str(reason)
    except (FormatkitError, UserWarning) as error:
        return "refused", f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure of this feature only
        refusal = _REFUSALS.search(str(error))
        return ("refused", refusal.group()) if refusal else ("failed", traceback.format_exc())
    return "works", ""


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("formatkit-versions")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.daemon.module", "formatkit.spark.daemon")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


if __name__ == "__main__":
    sys.exit(main())
