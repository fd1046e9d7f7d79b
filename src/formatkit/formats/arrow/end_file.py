"""A file object over the end of a file, for libraries that look at nothing else."""

from __future__ import annotations

import io
import os

from formatkit.contract.file_end import FileEnd

__all__ = ["EndFile"]


class EndFile(io.RawIOBase):
    """A cursor over what was read already."""

    def __init__(self, end: FileEnd) -> None:
        super().__init__()
        self._end = end
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end.size()}[whence]
        self._position = origin + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._end.size() - self._position, 0)
        length = left if size is None or size < 0 else min(size, left)
        found = bytes(self._end.read(self._position, length))
        self._position += length
        return found
