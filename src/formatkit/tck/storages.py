"""Kinds of storage that files are written to and read from: memory, the local disk, and pyiceberg's `FileIO`."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pyiceberg.io import FileIO, InputFile, OutputFile

from formatkit.contract import ByteSink, ByteSource
from formatkit.errors import FileMissingError
from formatkit.io import FileIOSink, FileIOSource, LocalSink, LocalSource, MemorySink, MemorySource

__all__ = ["SHIPPED_STORAGES", "FileIOStorage", "LocalStorage", "MakeStorage", "MemoryStorage", "Storage"]


class Storage(Protocol):
    """A place for files, each known by a name."""

    def sink(self, name: str) -> ByteSink: ...

    def source(self, name: str) -> ByteSource: ...


MakeStorage = Callable[[Path], Storage]
"""Makes a storage without files. The folder is empty and gone after the check."""


class MemoryStorage:
    """Files in memory."""

    def __init__(self, folder: Path) -> None:
        self._sinks: dict[str, MemorySink] = {}

    def sink(self, name: str) -> ByteSink:
        return self._sinks.setdefault(name, MemorySink(location=f"memory:{name}"))

    def source(self, name: str) -> ByteSource:
        sink = self._sinks.get(name)
        if sink is None or sink.data is None:
            raise FileMissingError(f"there is no memory:{name}", location=f"memory:{name}")
        return MemorySource(sink.data, location=sink.location)


class LocalStorage:
    """Files in a local folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def sink(self, name: str) -> ByteSink:
        return LocalSink(self._folder / name)

    def source(self, name: str) -> ByteSource:
        return LocalSource(self._folder / name)


class FileIOStorage:
    """Files behind a `FileIO` that does what object stores do: it shows a file when it is complete."""

    def __init__(self, folder: Path) -> None:
        self._io = _ObjectStore()

    def sink(self, name: str) -> ByteSink:
        return FileIOSink(self._io.new_output(f"store://{name}"), io=self._io)

    def source(self, name: str) -> ByteSource:
        return FileIOSource(self._io.new_input(f"store://{name}"))


SHIPPED_STORAGES: tuple[MakeStorage, ...] = (MemoryStorage, LocalStorage, FileIOStorage)
"""All that formatkit brings."""


class _ObjectStore(FileIO):
    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}

    def new_input(self, location: str) -> _Object:
        return _Object(location, self)

    def new_output(self, location: str) -> _Object:
        return _Object(location, self)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        key = location if isinstance(location, str) else location.location
        if self.objects.pop(key, None) is None:
            raise FileNotFoundError(key)


class _Object(InputFile, OutputFile):
    def __init__(self, location: str, store: _ObjectStore) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return len(self._content())

    def exists(self) -> bool:
        return self.location in self._store.objects

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._content())

    def to_input_file(self) -> _Object:
        return self

    def create(self, overwrite: bool = False) -> Any:
        if self.exists() and not overwrite:
            raise FileExistsError(self.location)
        return _Upload(self)

    def publish(self, data: bytes) -> None:
        self._store.objects[self.location] = data

    def _content(self) -> bytes:
        try:
            return self._store.objects[self.location]
        except KeyError:
            raise FileNotFoundError(self.location) from None


class _Upload(io.BytesIO):
    def __init__(self, target: _Object) -> None:
        super().__init__()
        self._target = target

    def close(self) -> None:
        if not self.closed:
            self._target.publish(self.getvalue())
            super().close()
