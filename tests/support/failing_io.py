"""Storage that fails when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

__all__ = ["FAILING_IO", "FailingFileIO", "failure_at"]

FAILING_IO = {"py-io-impl": "support.failing_io.FailingFileIO"}


class FailingFileIO(PyArrowFileIO):
    """Local storage whose calls are counted. The call with a given number fails, or all calls from it on."""

    calls = 0
    failing = 0
    for_good = False

    def new_input(self, location: str) -> PyArrowFile:
        self._count("open", location)
        return super().new_input(location)

    def new_output(self, location: str) -> PyArrowFile:
        self._count("write", location)
        return super().new_output(location)

    @classmethod
    def _count(cls, verb: str, location: str) -> None:
        cls.calls += 1
        if cls.failing and (cls.calls == cls.failing or (cls.for_good and cls.calls > cls.failing)):
            raise OSError(f"no room to {verb} {location}")


@contextmanager
def failure_at(number: int, *, for_good: bool = False) -> Iterator[None]:
    """Let the n-th call inside a block fail; 0 for none."""
    FailingFileIO.calls, FailingFileIO.failing, FailingFileIO.for_good = 0, number, for_good
    try:
        yield
    finally:
        FailingFileIO.failing = 0
