"""A storage that counts its calls, and ends the process at one of them."""

from __future__ import annotations

import os
import signal
from typing import Any

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

__all__ = ["KILL_AT", "CountedFileIO"]

KILL_AT = "KILL_AT"
"""The variable of the environment that says at which call; calls are only counted if it is not set."""


class CountedFileIO(PyArrowFileIO):
    """Local files, of which each call that changes something may be the last that this process does."""

    calls = 0

    @classmethod
    def count(cls) -> None:
        cls.calls += 1
        if str(cls.calls) == os.environ.get(KILL_AT):
            os.kill(os.getpid(), signal.SIGKILL)

    def new_output(self, location: str) -> PyArrowFile:
        plain = super().new_output(location)
        return _CountedFile(plain.location, plain._path, plain._filesystem)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.count()
        super().delete(location)
        self.count()


class _CountedFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> Any:
        CountedFileIO.count()
        return _CountedStream(super().create(overwrite))


class _CountedStream:
    """Of its writes only the first one counts, since formats and codecs differ in how many they make."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._written = False

    def write(self, data: bytes) -> int:
        """Half of the data reaches the storage before a call that kills."""
        half = len(data) // 2
        self._stream.write(memoryview(data)[:half])
        if not self._written:
            self._written = True
            self._stream.flush()
            CountedFileIO.count()
        self._stream.write(memoryview(data)[half:])
        return len(data)

    def close(self) -> None:
        CountedFileIO.count()
        self._stream.close()
        CountedFileIO.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _CountedStream:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
