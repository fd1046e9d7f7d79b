"""The libraries for Java that come with Spark, in one process that writes all files."""

from __future__ import annotations

import atexit
import base64
import os
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pyspark

from support.oracle.servant import Servant
from support.repository import ROOT

__all__ = ["double_bits", "encoded_bytes", "float_bits", "java"]

_SOURCES = ROOT / "tests" / "corpus" / "java"
# The process is short-lived: compiling less and collecting on one thread starts faster.
_FAST_START = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g"]


@cache
def java() -> Servant:
    """The program in ``tests/corpus/java``, compiled and started by the first caller."""
    folder = tempfile.TemporaryDirectory(prefix="corpus-classes")
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    sources = sorted(_SOURCES.rglob("*.java"))
    compiler: list[str | Path] = [
        _tool("javac"),
        "-nowarn",
        "-proc:none",
        "-Xlint:none",
        "-d",
        folder.name,
        "-cp",
        jars,
        *sources,
    ]
    subprocess.run(compiler, check=True, capture_output=True)
    class_path = os.pathsep.join([folder.name, str(jars)])
    process = Servant([_tool("java"), *_FAST_START, "-cp", class_path, "Corpus"])
    atexit.register(folder.cleanup)
    atexit.register(process.close)
    return process


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", name)) if home else name)
    assert found is not None, f"there is no {name}; requirements/java.sh finds or installs a JDK"
    return found


def float_bits(number: float) -> int:
    """What `Float.intBitsToFloat` makes the number of: JSON has neither NaN nor infinities."""
    return int(struct.unpack("<i", struct.pack("<f", number))[0])


def double_bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def encoded_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()
