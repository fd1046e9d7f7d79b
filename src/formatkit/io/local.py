"""Local files: reads by position without a shared cursor, writes that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import uuid
from contextlib import suppress
from pathlib import Path

from formatkit.errors import FileAlreadyExistsError, StorageError
from formatkit.io.failures import storage_failures
from formatkit.io.local_backend import LocalBackend
from formatkit.io.routed import RoutedSource
from formatkit.io.runtime import IoRuntime

__all__ = ["LocalSink", "LocalSource"]

_WRITE_BUFFER_BYTES = 64 << 10
_LINKS_UNSUPPORTED = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})


class LocalSource(RoutedSource):
    """A local file, opened at the first read.

    Args:
        path: The path on disk.
        location: How the caller spelled it; the path if left out.
        size: The length, if it is known.
        runtime: Where storage calls run; the current runtime if left out.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        location: str | None = None,
        size: int | None = None,
        runtime: IoRuntime | None = None,
    ) -> None:
        path = os.fspath(path)
        super().__init__(LocalBackend(path, location or path), size=size, runtime=runtime)


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
