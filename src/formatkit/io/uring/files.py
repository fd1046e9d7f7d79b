"""Local files that are read through a ring."""

from __future__ import annotations

import errno
import os
import stat

from formatkit.errors import StorageError
from formatkit.io.failures import closed_source, storage_failures
from formatkit.io.uring.conditions import etag_of

__all__ = ["Handle", "UringFile"]

# Direct reads begin and end at blocks of the device; those of a file system are as large or larger.
_SMALLEST_BLOCK, _LARGEST_BLOCK = 4 << 10, 64 << 10


class Handle:
    """An open descriptor, closed when nobody refers to it any more.

    Requests in flight refer to it, so that its number cannot become another file's under them. Counting references
    needs no lock, which matters in a forked child, where a lock may be held for good.
    """

    def __init__(self, path: str, flags: int) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)

    def __int__(self) -> int:
        return self._descriptor

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", -1)
        if descriptor >= 0:
            os.close(descriptor)


class UringFile:
    """An open local file. `size` and `etag` are those at the time of opening.

    Args:
        path: The file.
        location: Its name for errors, if that is not the path.
        direct: Whether buffers are read past the page cache. File systems that cannot do that are read through it;
            `direct` says which it is.
    """

    def __init__(self, path: str | os.PathLike[str], *, location: str | None = None, direct: bool = False) -> None:
        self.path = os.fspath(path)
        self.location = self.path if location is None else location
        self._direct: Handle | None = None
        with storage_failures(self.location, "open"):
            self._buffered: Handle | None = Handle(self.path, 0)
            status = os.fstat(int(self._buffered))
            if not stat.S_ISREG(status.st_mode):
                kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no ordinary file"
                raise StorageError(f"cannot read {self.location}: it is {kind}", location=self.location)
            if direct:
                self._direct = _open_directly(self.path, status)
        self.size = status.st_size
        self.etag = etag_of(status)
        self.direct = self._direct is not None
        self.block_bytes = min(max(status.st_blksize, _SMALLEST_BLOCK), _LARGEST_BLOCK)

    def status(self) -> os.stat_result:
        """What the file is now."""
        return os.fstat(int(self.handle()))

    def handle(self, *, direct: bool = False) -> Handle:
        """The descriptor; whoever keeps it keeps the file open."""
        handle = self._direct if direct else self._buffered
        if handle is None:
            raise closed_source(self.location)
        return handle

    def close(self) -> None:
        """Close as soon as nothing is in flight any more."""
        self._buffered = self._direct = None

    def __enter__(self) -> UringFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_directly(path: str, expected: os.stat_result) -> Handle | None:
    try:
        handle = Handle(path, os.O_DIRECT)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return None
        raise
    # The name may have got another file since the first descriptor was opened.
    return handle if os.path.samestat(os.fstat(int(handle)), expected) else None
