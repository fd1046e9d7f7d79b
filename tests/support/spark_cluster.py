"""A standalone Spark cluster of this machine: a master and two workers, each a process with a host of its own.

The processes belong to a keeper, which stops them when its input ends: when it is told to, or when whoever started it
is gone, in whatever way.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

__all__ = ["JAVA_OPTIONS", "spark_cluster"]

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For processes that live for a minute: starting fast counts, running fast does not."""

WORKERS = 2
_HOME = Path(pyspark.__path__[0])
_CLASSES = "org.apache.spark.deploy"
_SECONDS_TO_START = 180
_SECONDS_TO_STOP = 20


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """The address of a cluster whose files are in a folder; it is stopped at the end of the block."""
    keeper = subprocess.Popen(
        [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        url = keeper.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"no Spark cluster came up:\n{_logs(folder)}")
        yield url
    finally:
        keeper.stdin.close()
        keeper.stdout.close()
        keeper.wait()


def _keep(folder: Path) -> None:
    """Run a cluster until the standard input ends; its address is printed when it is ready for work."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        log = folder / "master.log"
        running.append(_start("master.Master", ["--host", "127.0.0.1", "--port", "0"], folder, log))
        url = _awaited(r"Starting Spark master at (spark://\S+)", log, running)[0]
        for number in range(1, WORKERS + 1):
            # Spark takes workers of one host for one machine: it never runs a task there twice at a time.
            host = f"127.0.0.{number}"
            options = ["--host", host, "--cores", "2", "--memory", "3g", "--work-dir", str(folder / "work"), url]
            running.append(_start("worker.Worker", options, folder, folder / f"worker{number}.log"))
        _awaited("Registering worker", log, running, times=WORKERS)
        print(url, flush=True)
        sys.stdin.read()
    finally:
        for process in reversed(running):
            _stop(process)


def _start(name: str, options: Sequence[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    command = [str(_HOME / "bin" / "spark-class"), f"{_CLASSES}.{name}", "--webui-port", "0", *options]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(folder, options[1]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _environment(folder: Path, host: str) -> Mapping[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
    }


def _awaited(pattern: str, log: Path, running: Sequence[subprocess.Popen[bytes]], *, times: int = 1) -> list[str]:
    """What a log says as often as wanted; it ends the program if it never does."""
    end = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < end and all(process.poll() is None for process in running):
        found = re.findall(pattern, log.read_text(errors="replace"))
        if len(found) >= times:
            return found
        time.sleep(0.1)
    sys.exit(1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and those it started, kindly at first."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS_TO_STOP)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _logs(folder: Path) -> str:
    return "\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in sorted(folder.glob("*.log")))


if __name__ == "__main__":
    # An interrupt from the keyboard reaches this process too, which goes when the tests go.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _keep(Path(sys.argv[1]))
