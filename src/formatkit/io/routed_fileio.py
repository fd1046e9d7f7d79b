"""Lets pyiceberg do its storage calls on the IO runtime, for those who want that part of formatkit alone."""

from __future__ import annotations

import io
import threading
import warnings
from typing import Any, Self, cast

import pyarrow as pa
from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, OutputStream, load_file_io
from pyiceberg.typedef import EMPTY_DICT, Properties

from formatkit.contract.storage import ByteSource, SinkStream
from formatkit.forks import fork_safe
from formatkit.io.locations import open_sink, open_source
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

_IMPLEMENTATION = "formatkit.py-io-impl"


class RuntimeFileIO(WrappingFileIO):
    """A `FileIO` whose storage calls are made by threads of an IO runtime.

    A catalog or table uses it if its property ``py-io-impl`` is ``formatkit.io.RuntimeFileIO``. What reaches the
    storage in the end is what pyiceberg would take without that property, or the class that ``formatkit.py-io-impl``
    names. Files that formatkit reads and writes are on a runtime anyway.

    Args:
        properties: As for any `FileIO`. The runtime is the current one of the thread that makes it.
    """

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._runtime = current_runtime()
        self._given: FileIO | None = None
        self._by_scheme: dict[str, FileIO] = {}
        self._lock = fork_safe(threading.Lock())

    @classmethod
    def around(cls, io: FileIO, runtime: IoRuntime | None = None) -> Self:
        """The same storage as `io`, on a runtime: the current one if left out."""
        implementation = f"{type(io).__module__}.{type(io).__qualname__}"
        made = cls({**io.properties, _IMPLEMENTATION: implementation})
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
        return _RuntimeInputFile(
            self._runtime.run(lambda: file_io_behind(self, location).new_input(location)), self._runtime
        )

    def new_output(self, location: str) -> OutputFile:
        found = self._runtime.run(lambda: file_io_behind(self, location).new_output(location))
        return _RuntimeOutputFile(found, file_io_behind(self, location), self._runtime)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        where = location if isinstance(location, str) else location.location
        if isinstance(location, InputFile):
            location = input_behind(location)
        elif isinstance(location, OutputFile):
            location = output_behind(location)
        self._runtime.run(lambda: file_io_behind(self, where).delete(location))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.properties),)

    def _load(self, location: str) -> FileIO:
        properties = {
            name: value for name, value in self.properties.items() if name not in (PY_IO_IMPL, _IMPLEMENTATION)
        }
        if _IMPLEMENTATION in self.properties:
            properties[PY_IO_IMPL] = self.properties[_IMPLEMENTATION]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "No preferred file implementation")
            return load_file_io(properties, location)


class _RuntimeInputFile(WrappingInputFile):
    def __init__(self, behind: InputFile, runtime: IoRuntime) -> None:
        super().__init__(behind.location)
        self.behind = behind
        self._runtime = runtime

    def __len__(self) -> int:
        return self._runtime.run(lambda: len(self.behind))

    def exists(self) -> bool:
        return self._runtime.run(self.behind.exists)

    def open(self, seekable: bool = True) -> InputStream:
        source = open_source(self.behind, runtime=self._runtime)
        try:
            file: Any = source.open()
        except BaseException:
            source.close()
            raise
        # Arrow's own file needs nothing of its source, and Arrow reads it best as it is.
        return cast("InputStream", file if isinstance(file, pa.NativeFile) else _InputStream(source, file))


class _RuntimeOutputFile(WrappingOutputFile):
    def __init__(self, behind: OutputFile, io: FileIO, runtime: IoRuntime) -> None:
        super().__init__(behind.location)
        self.behind = behind
        self._io = io
        self._runtime = runtime

    def __len__(self) -> int:
        return self._runtime.run(lambda: len(self.behind))

    def exists(self) -> bool:
        return self._runtime.run(self.behind.exists)

    def to_input_file(self) -> InputFile:
        return _RuntimeInputFile(self._runtime.run(self.behind.to_input_file), self._runtime)

    def create(self, overwrite: bool = False) -> OutputStream:
        sink = open_sink(self.behind, self._io, self._runtime)
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
