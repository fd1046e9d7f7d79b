"""A `ByteSource` as Vortex reads from one."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from formatkit.contract.file_end import FileEnd, ReadableBytes, end_of
from formatkit.contract.seal import Seal, find_seal
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError

__all__ = ["MAGIC", "SourceReads", "opening_ranges", "tail_length"]

MAGIC = b"VTXF"
_END = struct.Struct("<HH4s")
_SHORTEST = len(MAGIC) + _END.size


class SourceReads:
    """The object that Vortex asks for bytes, from several threads at once.

    Attributes:
        location: The file's location.
        seal: The file's checksums, if it has any. Vortex then sees no byte that does not match.
        failure: What the storage raised last.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.location = source.location
        self.failure: BaseException | None = None
        self._end = FileEnd(source)
        self.seal: Seal | None = find_seal(self._end, _tail_length_of(self._end))

    def size(self) -> int:
        return self._source.size()

    def announce_all(self) -> None:
        """Say that everything will be read. Of some of the columns Vortex does not tell where they are."""
        self._source.prefetch([ByteRange(0, self._end.start)])

    def read_at(self, offset: int, length: int) -> memoryview:
        source = self._end if offset >= self._end.start else self._source
        try:
            if self.seal is not None:
                return self.seal.read(source, offset, length)
            return source.read(offset, length)
        except BaseException as error:
            self.failure = error
            raise


def tail_length(end: bytes | memoryview) -> int:
    """How long the postscript and what follows are, given the last bytes of a file."""
    _, postscript_length, _ = _END.unpack(end[-_END.size :])
    return _END.size + int(postscript_length)


def opening_ranges(size: int) -> Sequence[ByteRange]:
    """What is read first of a file of this length."""
    return (*end_of(size), ByteRange(0, min(size, len(MAGIC))))


def _tail_length_of(source: ReadableBytes) -> int:
    size = source.size()
    if size < _SHORTEST:
        message = f"{source.location}: is no Vortex file: it has {size} bytes, and the shortest one {_SHORTEST}"
        raise CorruptFileError(message, location=source.location)
    end = source.read(size - _END.size, _END.size)
    length = tail_length(end)
    if not end[-len(MAGIC) :] == MAGIC == source.read(0, len(MAGIC)) or length > size:
        message = f"{source.location}: is no Vortex file, or was cut: it does not begin and end with {MAGIC.decode()}"
        raise CorruptFileError(message, location=source.location)
    return length
