"""Lets pyiceberg do its storage calls on the IO runtime, for those who want that part of formatkit alone."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

import pyarrow as pa
from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, OutputStream, load_file_io
from pyiceberg.typedef import EMPTY_DICT, Properties

from formatkit.contract.storage import ByteSource, SinkStream
from formatkit.errors import ConfigurationError
from formatkit.forks import fork_safe
from formatkit.io.failures import timeout_of, under_way
from formatkit.io.locations import open_sink, open_source
from formatkit.io.pyiceberg.trust import BEHIND_RUNTIME, import_named, loaded_file_io_class
from formatkit.io.runtime import IoRuntime, current_runtime
from formatkit.io.wrapping import (
    WrappingFileIO,
    WrappingInputFile,
    WrappingOutputFile,
    file_io_behind,
    input_behind,
    output_behind,
)

__all__ = ["RuntimeFileIO"]

T = TypeVar("T")


class RuntimeFileIO(WrappingFileIO):
    """A `FileIO` whose storage calls are made by threads of an IO runtime.

    A catalog or table uses it if its property ``py-io-impl`` is ``formatkit.io.RuntimeFileIO``. What reaches the
    storage in the end is what pyiceberg would take without that property, or the class that ``formatkit.py-io-impl``
    names: one of pyiceberg's, or one that the program itself has imported, as the property may be a table's.
    Files that formatkit reads and writes are on a runtime anyway.

    Args:
        properties: As for any `FileIO`. The runtime is the current one of the thread that makes it.
    """

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._runtime = current_runtime()
        self._given: FileIO | None = None
        self._by_scheme: dict[str, FileIO] = {}
        self._lock = fork_safe(threading.Lock())
        self._timeout = timeout_of(properties)

    @classmethod
    def around(cls, io: FileIO, runtime: IoRuntime | None = None) -> Self:
        """The same storage as `io`, on a runtime: the current one if left out."""
        implementation = f"{type(io).__module__}.{type(io).__qualname__}"
        made = cls({**io.properties, BEHIND_RUNTIME: implementation})
        made._given = io
        made._runtime = runtime or made._runtime
        return made

    def behind(self, location: str) -> FileIO:
        if self._given is not None:
            return self._given
        scheme = location.partition(":")[0] if "://" in location else ""
        with self._lock:
            if scheme not in self._by_scheme:
                self._by_scheme[scheme] = self._load(location)
            return self._by_scheme[scheme]

    def new_input(self, location: str) -> InputFile:
        found = self.run(location, "open", lambda: file_io_behind(self, location).new_input(location))
        return _RuntimeInputFile(found, self)

    def new_output(self, location: str) -> OutputFile:
        found = self.run(location, "open", lambda: file_io_behind(self, location).new_output(location))
        return _RuntimeOutputFile(found, self)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        where = location if isinstance(location, str) else location.location
        if isinstance(location, InputFile):
            location = input_behind(location)
        elif isinstance(location, OutputFile):
            location = output_behind(location)
        self.run(where, "delete", lambda: file_io_behind(self, where).delete(location))

    @property
    def runtime(self) -> IoRuntime:
        """Where its storage calls run."""
        return self._runtime

    def run(self, location: str, doing: str, call: Callable[[], T]) -> T:
        """The result of a storage call, which raises what the storage raises."""

        def named() -> T:
            with under_way(location, doing):
                return call()

        return self._runtime.run(named, timeout=self._timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        self.check()
        return _rebuild, (type(self), dict(self.properties))

    def check(self) -> None:
        """Raise `ConfigurationError` if the class that reaches the storage is not believed."""
        name = self.properties.get(BEHIND_RUNTIME)
        if self._given is None and name is not None and loaded_file_io_class(name) is None:
            raise ConfigurationError(
                f"property {BEHIND_RUNTIME!r} is {name!r}, which is no FileIO that this program has imported; the "
                "property may come from the table, so nothing is imported for it: if you mean that class, import its "
                "module first, or give the property to formatkit.load_table",
                property=BEHIND_RUNTIME,
                value=name,
            )

    def _load(self, location: str) -> FileIO:
        self.check()
        properties = {
            name: value for name, value in self.properties.items() if name not in (PY_IO_IMPL, BEHIND_RUNTIME)
        }
        if BEHIND_RUNTIME in self.properties:
            properties[PY_IO_IMPL] = self.properties[BEHIND_RUNTIME]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "No preferred file implementation")
            return load_file_io(properties, location)


def _rebuild(cls: type[RuntimeFileIO], properties: Properties) -> RuntimeFileIO:
    import_named(properties)  # the process that sent them has checked them
    return cls(properties)


class _RuntimeInputFile(WrappingInputFile):
    def __init__(self, behind: InputFile, io: RuntimeFileIO) -> None:
        super().__init__(behind.location)
        self.behind = behind
        self._io = io

    def __len__(self) -> int:
        return self._io.run(self.location, "ask for the length of", lambda: len(self.behind))

    def exists(self) -> bool:
        return self._io.run(self.location, "look for", self.behind.exists)

    def open(self, seekable: bool = True) -> InputStream:
        source = open_source(self.behind, self._io, runtime=self._io.runtime)
        try:
            file: Any = source.open()
        except BaseException:
            source.close()
            raise
        # Arrow's own file needs nothing of its source, and Arrow reads it best as it is.
        return cast("InputStream", file if isinstance(file, pa.NativeFile) else _InputStream(source, file))


class _RuntimeOutputFile(WrappingOutputFile):
    def __init__(self, behind: OutputFile, io: RuntimeFileIO) -> None:
        super().__init__(behind.location)
        self.behind = behind
        self._io = io

    def __len__(self) -> int:
        return self._io.run(self.location, "ask for the length of", lambda: len(self.behind))

    def exists(self) -> bool:
        return self._io.run(self.location, "look for", self.behind.exists)

    def to_input_file(self) -> InputFile:
        return _RuntimeInputFile(self._io.run(self.location, "open", self.behind.to_input_file), self._io)

    def create(self, overwrite: bool = False) -> OutputStream:
        sink = open_sink(self.behind, file_io_behind(self._io, self.location), self._io.runtime)
        return cast("OutputStream", _OutputStream(sink.create(overwrite=overwrite)))


class _InputStream(io.RawIOBase):
    """A file object that closes its source too."""

    def __init__(self, source: ByteSource, file: Any) -> None:
        super().__init__()
        self._source = source
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position: int = self._file.seek(offset, whence)
        return position

    def tell(self) -> int:
        position: int = self._file.tell()
        return position

    def read(self, size: int | None = -1, /) -> bytes:
        data: bytes = self._file.read(size)
        return data

    def read_buffer(self, size: int | None = -1, /) -> pa.Buffer:
        """Like `read`, without a copy; pyarrow prefers it."""
        buffer: pa.Buffer = self._file.read_buffer(size)
        return buffer

    def readinto(self, room: Any, /) -> int:
        count: int = self._file.readinto(room)
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()
            self._source.close()


class _OutputStream(io.RawIOBase):
    """A sink's stream as a file object. An exception inside its ``with`` block leaves no file."""

    def __init__(self, stream: SinkStream) -> None:
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()

    def flush(self) -> None:
        """Bytes reach the storage at the latest when the file is closed."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream.close()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None and not self.closed:
            super().close()
            self._stream.abort()
        self.close()
