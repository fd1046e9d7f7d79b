"""Where bytes come from and where they go.

A plugin never opens a location by itself: it is handed a `ByteSource` or a `ByteSink`, so that local files, object
stores, caches and the IO runtime look the same to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable

__all__ = ["ByteRange", "ByteSink", "ByteSource", "SinkStream"]


class ByteRange(NamedTuple):
    """`length` bytes from `offset`."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@runtime_checkable
class ByteSource(Protocol):
    """The bytes of one stored file.

    Clauses
    -------
    S1  `size` and `read` are safe to call from several threads at once.
    S2  `read(offset, length)` returns exactly `length` bytes; a range that is not inside the file raises
        `CorruptFileError`, because it came from a file that lies about itself.
    S3  Storage failures raise `StorageError` (`FileMissingError` where there is no file); they name the location.
    S4  `prefetch` is advice. It never blocks for IO, never raises for a range outside the file, and may do nothing.
        What it fetches is held until it was read once, so ranges are announced that will be read, in the order of
        need, as many as are known; further calls append.
    S5  After `close`, everything that the source opened is closed too. `close` may be called twice.
    """

    @property
    def location(self) -> str:
        """The location exactly as the table metadata or the caller spelled it."""
        ...

    def size(self) -> int:
        """The length of the file in bytes."""
        ...

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly `length` bytes from `offset`, without a copy where the storage allows it."""
        ...

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        """Say which ranges will be read, those first that are needed first."""
        ...

    def open(self) -> BinaryIO:
        """A new seekable file object for codec libraries that want one. It lives no longer than the source."""
        ...

    def local_path(self) -> str | None:
        """The path, when the bytes are an ordinary local file that a codec library may open by itself."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class SinkStream(Protocol):
    """An open output. Nothing is visible at the location before `close`."""

    def write(self, data: bytes | memoryview, /) -> int: ...

    def tell(self) -> int: ...

    def flush(self) -> None: ...

    def close(self) -> None:
        """Publish what was written."""
        ...

    def abort(self) -> None:
        """Throw away what was written; no file is left behind. May be called after a failed `close`."""
        ...

    @property
    def closed(self) -> bool: ...


@runtime_checkable
class ByteSink(Protocol):
    """The place of one file that is to be written.

    Clauses
    -------
    K1  `create(overwrite=False)` raises `FileAlreadyExistsError` when the location is taken, before any byte is
        written.
    K2  A reader never sees a half-written file at the location: it appears whole on `close`, or not at all.
    K3  `abort` leaves the location as it was before `create`.
    """

    @property
    def location(self) -> str: ...

    def create(self, *, overwrite: bool = False) -> SinkStream: ...
