"""A slow storage that notes which thread makes each of its calls, and a format whose batches are noted likewise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from formatkit.contract.options import ReadOptions
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.registry import FormatRegistry, default_registry

__all__ = ["WatchedFileIO", "on_runtime_thread", "watched_registry"]

Call = tuple[str, str, str]


def on_runtime_thread(name: str) -> bool:
    """Whether a thread of this name belongs to an IO runtime."""
    return name.startswith("formatkit-io")


class WatchedFileIO(PyArrowFileIO):
    """Local files. `calls` has what was done, where, and the name of the thread."""

    calls: ClassVar[list[Call]] = []
    seconds_per_call: ClassVar[float] = 0.0

    @classmethod
    def watch(cls, *, seconds_per_call: float) -> None:
        """Begin anew."""
        cls.calls = []
        cls.seconds_per_call = seconds_per_call

    @classmethod
    def note(cls, what: str, location: str) -> None:
        cls.calls.append((what, location, threading.current_thread().name))
        time.sleep(cls.seconds_per_call)

    def new_input(self, location: str) -> PyArrowFile:
        return _watched(super().new_input(location))

    def new_output(self, location: str) -> PyArrowFile:
        return _watched(super().new_output(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.note("delete", location if isinstance(location, str) else location.location)
        super().delete(location)


def _watched(plain: PyArrowFile) -> PyArrowFile:
    return _WatchedFile(plain.location, plain._path, plain._filesystem)


class _WatchedFile(PyArrowFile):
    def __len__(self) -> int:
        WatchedFileIO.note("length", self.location)
        return super().__len__()

    def exists(self) -> bool:
        WatchedFileIO.note("exists", self.location)
        return super().exists()

    def open(self, seekable: bool = True) -> Any:
        WatchedFileIO.note("open", self.location)
        return _WatchedStream(super().open(seekable), self.location)

    def create(self, overwrite: bool = False) -> Any:
        WatchedFileIO.note("create", self.location)
        return _WatchedStream(super().create(overwrite), self.location)


class _WatchedStream:
    """Notes the calls that may wait for a storage."""

    def __init__(self, stream: Any, location: str) -> None:
        self._stream = stream
        self._location = location

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._stream, name)
        return self._noting(name, found) if name in ("read", "readinto", "write", "flush", "close") else found

    def _noting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            WatchedFileIO.note(name, self._location)
            return call(*arguments)

        return noted

    def __enter__(self) -> _WatchedStream:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def watched_registry(threads: set[str]) -> FormatRegistry:
    """What is installed, but each thread that opens, decodes or encodes leaves its name."""
    registry = FormatRegistry()
    for plugin in default_registry().plugins():
        registry.register(_WatchedPlugin(plugin, threads))
    for operations in default_registry().batch_operations():
        registry.register_batch(operations)
    return registry


class _Delegate:
    def __init__(self, inner: Any, threads: set[str]) -> None:
        self._inner = inner
        self._threads = threads

    def _note(self) -> None:
        self._threads.add(threading.current_thread().name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _WatchedPlugin(_Delegate):
    def reader(self) -> _WatchedReader:
        return _WatchedReader(self._inner.reader(), self._threads)

    def writer(self) -> _WatchedWriter:
        return _WatchedWriter(self._inner.writer(), self._threads)


class _WatchedReader(_Delegate):
    def open(self, source: Any, options: Any) -> _WatchedReadableFile:
        self._note()
        return _WatchedReadableFile(self._inner.open(source, options), self._threads)


class _WatchedReadableFile(_Delegate):
    def read(self, options: ReadOptions) -> ReadResult[Any]:
        self._note()
        result = self._inner.read(options)
        return replace(result, batches=BatchStream(self._noting(result.batches), result.batches.close))

    def _noting(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._note()
            yield batch


class _WatchedWriter(_Delegate):
    def open(self, sink: Any, options: Any) -> _WatchedWrittenFile:
        return _WatchedWrittenFile(self._inner.open(sink, options), self._threads)


class _WatchedWrittenFile(_Delegate):
    def write(self, batch: Any) -> None:
        self._note()
        self._inner.write(batch)

    def __enter__(self) -> _WatchedWrittenFile:
        self._inner.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._inner.__exit__(*failure)
