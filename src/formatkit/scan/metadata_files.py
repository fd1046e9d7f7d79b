"""Fetches the files of table metadata."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

from pyiceberg.io import FileIO

from formatkit.errors import CorruptFileError
from formatkit.io import open_source

__all__ = ["load", "load_manifests"]

_FETCHED_AHEAD = 8


def load(location: str, io: FileIO) -> bytes:
    """The contents of a file."""
    with closing(open_source(location, io)) as source:
        return bytes(source.read(0, source.size()))


def load_manifests(manifests: Sequence[tuple[str, int]], io: FileIO) -> Iterator[bytes]:
    """The contents of manifests, in order. Those in remote storage are fetched ahead, several at a time.

    Args:
        manifests: Locations, and the lengths that the manifest list says.
        io: Where to look up locations that are not local.
    """
    if len(manifests) <= 1 or _is_local(manifests[0][0], io):
        yield from (_load_manifest(location, length, io) for location, length in manifests)
        return
    with ThreadPoolExecutor(_FETCHED_AHEAD, thread_name_prefix="formatkit-plan") as pool:
        waiting: deque[Future[bytes]] = deque()
        try:
            for location, length in manifests:
                waiting.append(pool.submit(_load_manifest, location, length, io))
                if len(waiting) == _FETCHED_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _load_manifest(location: str, length: int, io: FileIO) -> bytes:
    data = load(location, io)
    if len(data) != length:
        message = (
            f"{location} has {len(data)} bytes, but the manifest list says {length}: the manifest was cut off or "
            "replaced"
        )
        raise CorruptFileError(message, location=location)
    return data


def _is_local(location: str, io: FileIO) -> bool:
    with closing(open_source(location, io)) as source:
        return source.local_path() is not None
