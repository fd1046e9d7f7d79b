"""What a storage must do to be read through the IO runtime, of which it knows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Protocol, cast

from formatkit.contract.storage import ByteRange
from formatkit.io.ranges import RangeRules

__all__ = ["CachingBackend", "RangeBackend", "as_caching"]


class RangeBackend(Protocol):
    """One stored file. Its methods are called by several threads at once and raise errors of this package."""

    @property
    def location(self) -> str:
        """The location exactly as the caller spelled it."""
        ...

    @property
    def timeout(self) -> float | None:
        """How many seconds the storage may be silent; None if the runtime decides."""
        ...

    @property
    def rules(self) -> RangeRules:
        """Which requests suit this storage."""
        ...

    def size(self) -> int:
        """The length of the file, asked of the storage."""
        ...

    @property
    def prepared(self) -> bool:
        """Whether `prepare` would have nothing to do."""
        ...

    def prepare(self) -> None:
        """Do what must be done before the first read; fail if the file cannot be read."""
        ...

    def read_into(self, wanted: ByteRange, room: memoryview) -> None:
        """Fill the room, which is as long as the range; `CorruptFileError` if the file ends before."""
        ...

    def local_path(self) -> str | None:
        """The path of an ordinary local file."""
        ...

    def close(self) -> None:
        """Release everything, at the latest when the reads that are under way have ended."""
        ...

    def after_fork(self) -> None:
        """Forget what the parent's threads had under way."""
        ...


class CachingBackend(RangeBackend, Protocol):
    """A file that the operating system keeps in memory. What is in memory is read without the runtime.

    `prepare_at_once`, `read_cached`, `is_cached` and `close` never wait for storage; once the file is prepared, nor do
    `size` and `open`.
    """

    def prepare_at_once(self) -> bool:
        """Prepare if that means no waiting; whether the file is prepared."""
        ...

    def read_cached(self, offset: int, room: memoryview) -> int:
        """Fill the room from its beginning with what is in memory, and tell how many bytes that was."""
        ...

    def is_cached(self, ranges: Sequence[ByteRange]) -> bool:
        """Whether samples of the ranges are in memory, or nobody can tell. Means nothing before it is prepared."""
        ...

    def advise(self, ranges: Sequence[ByteRange]) -> None:
        """Ask the operating system to load ranges."""
        ...

    def open(self) -> BinaryIO:
        """A new file object of its own, which whoever asked for it closes."""
        ...

    def acquire(self) -> int:
        """The descriptor, which stays open until `release` was called as often as this."""
        ...

    def release(self) -> None: ...


def as_caching(backend: RangeBackend) -> CachingBackend | None:
    """The same backend, if it is one of those."""
    return cast("CachingBackend", backend) if hasattr(backend, "read_cached") else None
