"""Local files: reads by position without a shared cursor, writes that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from formatkit.contract.storage import ByteRange
from formatkit.errors import FileAlreadyExistsError, StorageError
from formatkit.io.failures import closed_source, out_of_range, storage_failures

__all__ = ["LocalSink", "LocalSource"]

_WRITE_BUFFER_BYTES = 1 << 20
_LINKS_UNSUPPORTED = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})


class LocalSource:
    """A local file, opened at the first read.

    Args:
        path: The path on disk.
        location: How the caller spelled it; the path if left out.
        size: The length, if it is known.
    """

    def __init__(self, path: str | os.PathLike[str], *, location: str | None = None, size: int | None = None) -> None:
        self._path = os.fspath(path)
        self._location = self._path if location is None else location
        self._size = size
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._reads = 0
        self._closed = False
        self._files: list[pa.NativeFile] = []

    @property
    def location(self) -> str:
        return self._location

    def size(self) -> int:
        if self._size is None:
            with storage_failures(self._location, "read"):
                self._size = self._checked_size()
        return self._size

    def read(self, offset: int, length: int) -> memoryview:
        if offset < 0 or length < 0 or offset + length > self.size():
            raise out_of_range(self._location, offset, length, self.size())
        with storage_failures(self._location, "read"):
            descriptor = self._acquire()
            try:
                return self._read_exactly(descriptor, offset, length)
            finally:
                self._release()

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        pass

    def open(self) -> BinaryIO:
        with storage_failures(self._location, "open"):
            self._checked_size()
            with self._lock:
                if self._closed:
                    raise closed_source(self._location)
                file = pa.OSFile(self._path, "rb")
                self._files.append(file)
        return cast("BinaryIO", file)

    def local_path(self) -> str | None:
        return self._path

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._close_descriptor_if_idle()
            for file in self._files:
                file.close()

    def _checked_size(self) -> int:
        status = Path(self._path).stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no ordinary file"
            raise StorageError(f"cannot read {self._location}: it is {kind}", location=self._location)
        return status.st_size

    # A descriptor that is closed under a running read could already belong to another file, so the last one out closes.
    def _acquire(self) -> int:
        with self._lock:
            if self._closed:
                raise closed_source(self._location)
            if self._descriptor is None:
                self._checked_size()
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._reads += 1
            return self._descriptor

    def _release(self) -> None:
        with self._lock:
            self._reads -= 1
            if self._closed:
                self._close_descriptor_if_idle()

    def _close_descriptor_if_idle(self) -> None:
        if self._descriptor is not None and self._reads == 0:
            os.close(self._descriptor)
            self._descriptor = None

    def _read_exactly(self, descriptor: int, offset: int, length: int) -> memoryview:
        data = os.pread(descriptor, length, offset)
        if len(data) == length:
            return memoryview(data)
        # The kernel returns at most about 2 GiB at a time.
        whole = bytearray(data)
        while len(whole) < length:
            data = os.pread(descriptor, length - len(whole), offset + len(whole))
            if not data:
                raise out_of_range(self._location, offset, length, os.fstat(descriptor).st_size)
            whole += data
        return memoryview(whole)


class LocalSink:
    """The place of a local file. Missing parent folders are made."""

    def __init__(self, path: str | os.PathLike[str], *, location: str | None = None) -> None:
        self._path = Path(path)
        self._location = os.fspath(path) if location is None else location

    @property
    def location(self) -> str:
        return self._location

    def create(self, *, overwrite: bool = False) -> LocalSinkStream:
        with storage_failures(self._location, "create"):
            if self._path.is_dir():
                raise StorageError(f"cannot create {self._location}: it is a directory", location=self._location)
            if not overwrite and os.path.lexists(self._path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self._path))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return LocalSinkStream(self._path, self._location, overwrite=overwrite)


class LocalSinkStream:
    """A hidden file next to the target, which takes the target's name when it is complete."""

    def __init__(self, path: Path, location: str, *, overwrite: bool) -> None:
        self._path = path
        self._location = location
        self._overwrite = overwrite
        self._partial = path.with_name(f".{uuid.uuid4().hex}.partial")
        self._file = self._partial.open("xb", buffering=_WRITE_BUFFER_BYTES)

    def write(self, data: bytes | memoryview, /) -> int:
        with storage_failures(self._location, "write"):
            return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        with storage_failures(self._location, "write"):
            self._file.flush()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            with storage_failures(self._location, "write"):
                self._file.close()
                self._publish()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        # A full disk fails again when the buffered rest is flushed; the file is going away in any case.
        with suppress(OSError):
            self._file.close()
        with storage_failures(self._location, "clean up after writing"), suppress(FileNotFoundError):
            self._partial.unlink()

    def _publish(self) -> None:
        if self._overwrite:
            self._partial.replace(self._path)
            return
        try:
            os.link(self._partial, self._path)
        except OSError as error:
            if error.errno not in _LINKS_UNSUPPORTED:
                raise
            # File systems without hard links: the check and the rename are two steps, which is the best there is.
            if os.path.lexists(self._path):
                raise FileAlreadyExistsError(
                    f"cannot write {self._location}: another writer was faster", location=self._location
                ) from error
            self._partial.rename(self._path)
        else:
            self._partial.unlink()
