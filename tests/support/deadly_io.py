"""A storage that ends the process that reads a certain file, or the Spark executor above it; once, in one process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Literal, TypeAlias

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

__all__ = ["DEADLY_IO", "FOLDER", "DeadlyFileIO", "Fault", "arm", "victim"]

DEADLY_IO = {"py-io-impl": "support.deadly_io.DeadlyFileIO"}
FOLDER = "deadly.folder"
"""The property that says where processes agree on which of them meets the fault."""

Fault: TypeAlias = Literal["raise", "kill worker", "kill executor"]


class DeadlyFileIO(PyArrowFileIO):
    """Local files, one of which may be the last that a process opens."""

    def new_input(self, location: str) -> PyArrowFile:
        armed = Path(self.properties[FOLDER]) / "armed"
        if armed.exists() and armed.read_text().splitlines()[0] == location:
            _fire(armed)
        return super().new_input(location)


def arm(folder: Path, location: str, fault: Fault) -> None:
    """Let the next process that opens a file meet the fault."""
    (folder / "fired").unlink(missing_ok=True)
    (folder / "armed").write_text(f"{location}\n{fault}")


def victim(folder: Path) -> int:
    """The process that met the fault."""
    return int((folder / "fired").read_text())


def _fire(armed: Path) -> None:
    fault = armed.read_text().splitlines()[1]
    process = _executor() if fault == "kill executor" else os.getpid()
    mine = armed.with_name(f"fired-{os.getpid()}")
    armed.rename(mine)
    mine.write_text(str(process))
    mine.rename(armed.with_name("fired"))
    if fault == "raise":
        raise OSError("the storage is out of order")
    os.kill(process, signal.SIGKILL)


def _executor() -> int:
    """The Java process of the executor, which is the parent of the daemon that forks Python's workers."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    executor = int(daemon.rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    return executor
