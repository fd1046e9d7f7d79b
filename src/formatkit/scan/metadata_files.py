"""Fetches the files of table metadata."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing

from pyiceberg.io import FileIO

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError
from formatkit.io import open_source

__all__ = ["load", "load_manifests"]

_FETCHED_AHEAD = 8


def load(location: str, io: FileIO) -> bytes:
    """The contents of a file."""
    with closing(open_source(location, io)) as source:
        return bytes(source.read(0, source.size()))


def load_manifests(manifests: Sequence[tuple[str, int]], io: FileIO) -> Iterator[bytes]:
    """The contents of manifests, in order, of which the IO runtime fetches some ahead.

    Args:
        manifests: Locations, and the lengths that the manifest list says. They are not asked of the storage again.
        io: Where to look up locations that are not local.
    """
    waiting: deque[tuple[ByteSource, int]] = deque()
    try:
        for location, length in manifests:
            source = open_source(location, io, length)
            source.prefetch([ByteRange(0, length)])
            waiting.append((source, length))
            if len(waiting) == _FETCHED_AHEAD:
                yield _contents(*waiting.popleft())
        while waiting:
            yield _contents(*waiting.popleft())
    finally:
        for source, _ in waiting:
            source.close()


def _contents(source: ByteSource, length: int) -> bytes:
    with closing(source):
        try:
            return bytes(source.read(0, length))
        except CorruptFileError as error:
            message = (
                f"{source.location} has not the {length} bytes that the manifest list says: the manifest was cut off "
                "or replaced"
            )
            raise CorruptFileError(message, location=source.location) from error
