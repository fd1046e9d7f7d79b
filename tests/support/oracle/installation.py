"""Where `make` puts the other implementations, and how they are started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyspark

from support.oracle.servant import Servant
from support.repository import ROOT

__all__ = ["FOLDER", "is_installed", "start_java", "start_rust"]

FOLDER = ROOT / ".oracle"
# Iceberg's jar brings all but these, which come with pyspark.
_LIBRARIES = ("hadoop-client-*", "commons-lang3-*", "slf4j-api-*", "zstd-jni-*", "snappy-java-*", "lz4-java-*")
# Jobs are small and the process is short-lived: compiling less and collecting on one thread starts faster.
_FAST_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g"]


def is_installed() -> bool:
    return (FOLDER / ".ready").exists()


def start_java() -> Servant:
    """Iceberg's own library, the program in ``tests/oracle/java`` around it."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    assert java is not None, "there is no Java; requirements/java.sh finds or installs one"
    jars = Path(pyspark.__file__).parent / "jars"
    libraries = [str(jar) for pattern in _LIBRARIES for jar in jars.glob(f"{pattern}.jar")]
    class_path = os.pathsep.join([str(FOLDER / "classes"), str(FOLDER / "iceberg.jar"), *libraries])
    return Servant([java, *_FAST_START, "-cp", class_path, "Oracle"])


def start_rust() -> Servant:
    """iceberg-rust, asked through DataFusion by ``tests/oracle/rust/read.py``."""
    return Servant([FOLDER / "venv" / "bin" / "python", ROOT / "tests" / "oracle" / "rust" / "read.py"])
