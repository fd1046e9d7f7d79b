"""A storage whose reads can be held back, slowed down and made to fail."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from pyiceberg.io import InputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

__all__ = ["GatedFile"]


class GatedFile(InputFile):
    """A local file that notes every read: its range, and the thread that made it.

    Attributes:
        gate: Reads wait until it is set.
        delay: Seconds that each read takes.
        failures: What the next reads raise, the first one first.
        reads: Offsets and lengths, in the order in which reads began.
        threads: The names of the threads that called.
        most_at_once: The most reads at the same time.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._inner = PyArrowFileIO().new_input(str(path))
        self.gate = threading.Event()
        self.gate.set()
        self.delay = 0.0
        self.failures: list[Exception] = []
        self.reads: list[tuple[int, int]] = []
        self.threads: set[str] = set()
        self.lengths = 0
        self.closed_streams = 0
        self.opened_streams = 0
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        self.lengths += 1
        self.threads.add(threading.current_thread().name)
        return len(self._inner)

    def exists(self) -> bool:
        return self._inner.exists()

    def open(self, seekable: bool = True) -> Any:
        self.opened_streams += 1
        return _GatedStream(self, self._inner.open(seekable))

    def begin(self, offset: int, length: int) -> None:
        with self._lock:
            self.threads.add(threading.current_thread().name)
            self.reads.append((offset, length))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            failure = self.failures.pop(0) if self.failures else None
        self.gate.wait()
        time.sleep(self.delay)
        with self._lock:
            self._at_once -= 1
        if failure:
            raise failure


class _GatedStream:
    def __init__(self, file: GatedFile, stream: Any) -> None:
        self._file = file
        self._stream = stream

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._stream.seek(offset, whence))

    def read(self, size: int) -> bytes:
        self._file.begin(self._stream.tell(), size)
        return bytes(self._stream.read(size))

    def close(self) -> None:
        self._file.threads.add(threading.current_thread().name)
        self._file.closed_streams += 1
        self._stream.close()
