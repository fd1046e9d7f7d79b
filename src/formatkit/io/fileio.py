"""Any pyiceberg `FileIO` as a source and a sink: object stores, HDFS, and whatever a user plugs into pyiceberg."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from typing import cast

from pyiceberg.io import FileIO, InputFile, OutputFile, OutputStream

from formatkit.errors import StorageError
from formatkit.io.failures import storage_failures
from formatkit.io.fileio_backend import FileIOBackend
from formatkit.io.fileio_streams import StreamError
from formatkit.io.routed import RoutedSource
from formatkit.io.runtime import IoRuntime
from formatkit.io.workers import progress

__all__ = ["FileIOSink", "FileIOSource"]

_SPOOL_BYTES = 16 << 20


class FileIOSource(RoutedSource):
    """An `InputFile`.

    Args:
        file: Of any pyiceberg `FileIO`.
        size: The length, if it is known.
        runtime: Where storage calls run; the current runtime if left out.
        timeout: How many seconds the storage may be silent; as the runtime says if left out.
    """

    def __init__(
        self,
        file: InputFile,
        *,
        size: int | None = None,
        runtime: IoRuntime | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(FileIOBackend(file, timeout), size=size, runtime=runtime)


class FileIOSink:
    """An `OutputFile`.

    Object stores publish on `close`. A `FileIO` over a plain file system shows the file while it is written and has no
    exclusive create; that is a property of the backend, which `LocalSink` does not share.
    """

    def __init__(self, file: OutputFile, *, io: FileIO) -> None:
        self._file = file
        self._io = io

    @property
    def location(self) -> str:
        return self._file.location

    def create(self, *, overwrite: bool = False) -> FileIOSinkStream | ReplacingSinkStream:
        with storage_failures(self.location, "create"):
            if not self._file.exists():
                return FileIOSinkStream(self._file, self._io)
            if not overwrite:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.location)
            return ReplacingSinkStream(self._file)


class FileIOSinkStream:
    """Writes through an `OutputStream`, opened by the first write; `abort` deletes what closing it published."""

    def __init__(self, file: OutputFile, io: FileIO) -> None:
        self._file = file
        self._io = io
        self._location = file.location
        self._stream: OutputStream | None = None
        self._position = 0
        self._closed = False

    def write(self, data: bytes | memoryview, /) -> int:
        if self._closed:
            raise StorageError(f"cannot write {self._location}: the stream was closed", location=self._location)
        view = memoryview(data)
        with storage_failures(self._location, "write"):
            if self._stream is None:
                self._stream = self._file.create()
            write_all(self._stream, view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        pass

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            with storage_failures(self._location, "write"):
                (self._stream or self._file.create()).close()
        except BaseException:
            self._delete()
            raise

    def abort(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._stream is not None:
            # Whether the rest still reaches the storage is of no interest: what arrived is deleted.
            with suppress(Exception):
                self._stream.close()
            self._delete()

    def _delete(self) -> None:
        with storage_failures(self._location, "clean up after writing"), suppress(FileNotFoundError):
            self._io.delete(self._location)


def write_all(stream: OutputStream, data: memoryview) -> None:
    """Write until the stream has taken everything: raw streams may take a part at a time, and others say nothing."""
    view = data.cast("B")
    while len(view):
        taken: object = stream.write(cast("bytes", view))
        if not isinstance(taken, int):
            return
        if not 0 < taken <= len(view):
            raise StreamError(f"it took {taken} of {len(view)} bytes")
        view = view[taken:]
        progress()


class ReplacingSinkStream:
    """Collects the bytes aside and sends them on `close`, because an opened `OutputStream` cannot be called back.

    Without this, aborting would cost the file that was to be replaced.
    """

    def __init__(self, file: OutputFile) -> None:
        self._file = file
        self._aside = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115

    def write(self, data: bytes | memoryview, /) -> int:
        return self._aside.write(data)

    def tell(self) -> int:
        return self._aside.tell()

    def flush(self) -> None:
        pass

    @property
    def closed(self) -> bool:
        return self._aside.closed

    def close(self) -> None:
        if self._aside.closed:
            return
        with self._aside, storage_failures(self._file.location, "write"):
            self._aside.seek(0)
            with self._file.create(overwrite=True) as stream:
                while data := self._aside.read(_SPOOL_BYTES):
                    write_all(stream, memoryview(data))

    def abort(self) -> None:
        self._aside.close()
