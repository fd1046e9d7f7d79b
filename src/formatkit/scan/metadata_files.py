"""Fetches the files of table metadata."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from gzip import GzipFile
from io import BytesIO

from pyiceberg.io import FileIO

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import ConfigurationError, CorruptFileError
from formatkit.formats.avro.container import read_header
from formatkit.io import MemorySource, open_source

__all__ = ["check_complete", "decompressed", "load", "load_manifests"]

_FETCHED_AHEAD = 8
# A length that is larger may be nonsense, so that the storage is asked first.
_MAX_FETCHED_AHEAD_BYTES = 256 * 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
# JSON is compressed by a factor of ten, or of some tens where a table has thousands of snapshots.
_MAX_EXPANSION = 200
_MIN_EXPANDED_BYTES = 16 * 1024 * 1024


def load(location: str, io: FileIO) -> bytes:
    """The contents of a file."""
    with closing(open_source(location, io)) as source:
        return bytes(source.read(0, source.size()))


def decompressed(content: bytes) -> bytes:
    """The JSON text of a metadata file, which may be compressed.

    Raises:
        CorruptFileError: It is larger than metadata compressed to this length can be.
        EOFError, OSError, zlib.error: It is damaged.
    """
    if not content.startswith(_GZIP_MAGIC):
        return content
    limit = max(_MIN_EXPANDED_BYTES, _MAX_EXPANSION * len(content))
    text = GzipFile(fileobj=BytesIO(content)).read(limit + 1)
    if len(text) > limit:
        raise CorruptFileError(f"its {len(content)} bytes are more than {limit} once decompressed")
    return text


def load_manifests(manifests: Sequence[tuple[str, int]], io: FileIO) -> Iterator[bytes]:
    """The contents of manifests, in order, of which the IO runtime fetches some ahead.

    Args:
        manifests: Locations, and the lengths that the manifest list says. They may be wrong, as in tables that were
            edited: the storage is asked where a manifest does not end there, and `check_complete` is to be asked of
            what is found.
        io: Where to look up locations that are not local.
    """
    waiting: deque[tuple[ByteSource, int]] = deque()
    try:
        for location, length in manifests:
            source = open_source(location, io, length)
            if length <= _MAX_FETCHED_AHEAD_BYTES:
                source.prefetch([ByteRange(0, length)])
            waiting.append((source, length))
            if len(waiting) == _FETCHED_AHEAD:
                yield _contents(*waiting.popleft(), io)
        while waiting:
            yield _contents(*waiting.popleft(), io)
    finally:
        for source, _ in waiting:
            source.close()


def check_complete(location: str, *, found: tuple[int, int], said: tuple[int, int | None]) -> None:
    """Raise `CorruptFileError` if a manifest may have lost files.

    Args:
        location: The manifest.
        found: How many bytes and how many live files it has.
        said: How many the manifest list says. It need not count files; a manifest that grew has not lost any then.
    """
    if found[0] == said[0] or found[1] == said[1] or (said[1] is None and found[0] > said[0]):
        return
    files = "an unknown number of" if said[1] is None else said[1]
    message = (
        f"{location} has {found[0]} bytes and {found[1]} live files, where the manifest list says {said[0]} bytes and "
        f"{files} files: the manifest was cut off or replaced"
    )
    raise CorruptFileError(message, location=location)


def _contents(source: ByteSource, length: int, io: FileIO) -> bytes:
    with closing(source):
        try:
            content = bytes(source.read(0, length)) if length <= _MAX_FETCHED_AHEAD_BYTES else b""
        except CorruptFileError:
            content = b""
    if _is_whole(content):
        return content
    content = load(source.location, io)
    if len(content) != length and not _is_whole(content):
        message = (
            f"{source.location} has {len(content)} bytes, where the manifest list says {length}: the manifest was cut "
            "off or replaced"
        )
        raise CorruptFileError(message, location=source.location)
    return content


def _is_whole(content: bytes) -> bool:
    """Whether an Avro file ends with the sync marker of its header, as each of its blocks does."""
    try:
        return content.endswith(read_header(MemorySource(content)).sync)
    except (ConfigurationError, CorruptFileError):
        return False
