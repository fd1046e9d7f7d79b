"""Avro's container: a header, then blocks of rows, each followed by the marker that the header announces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Lock

from formatkit.contract.options import Split
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import ConfigurationError
from formatkit.formats.avro.encryption import MAGIC as ENCRYPTED_MAGIC
from formatkit.formats.avro.failures import corrupt
from formatkit.formats.avro.windows import Windows

__all__ = ["MAGIC", "SYNC_BYTES", "Block", "Header", "RowOrdinals", "blocks", "opening_range", "read_header"]

MAGIC = b"Obj\x01"
SYNC_BYTES = 16

_HEADER_BYTES = 64 * 1024
# The last block of a split ends behind it, most often this close.
_BEHIND_BYTES = 64 * 1024
_WALK_BYTES = 16 * 1024
_LONGEST_HEADER = 2 * 10


@dataclass(frozen=True, kw_only=True)
class Header:
    """What stands before the first block.

    Attributes:
        metadata: Stored values by name, the schema and the codec among them.
        sync: The marker that ends every block.
        end: Where the first block begins.
        head: The first bytes of the file, as many as were read to find this.
    """

    metadata: Mapping[str, bytes]
    sync: bytes
    end: int
    head: bytes

    @property
    def codec(self) -> str:
        return self.metadata.get("avro.codec", b"null").decode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some rows, as they are stored.

    Attributes:
        offset: Where the block begins in the file.
        rows: How many rows it says it has.
        payload: The rows, compressed by the file's codec.
    """

    offset: int
    rows: int
    payload: memoryview


def opening_range(size: int) -> ByteRange:
    """What `read_header` reads first of a file of this length."""
    return ByteRange(0, min(size, _HEADER_BYTES))


def read_header(source: ByteSource) -> Header:
    """The header of a file.

    Raises:
        CorruptFileError: The file does not begin like an Avro file.
        ConfigurationError: It is encrypted, and no key was given.
    """
    size = source.size()
    length = opening_range(size).length
    data = bytes(source.read(0, length))
    while True:
        if data[: len(MAGIC)] == ENCRYPTED_MAGIC:
            message = f"{source.location}: is encrypted; its key is needed to read it (OpenOptions.encryption)"
            raise ConfigurationError(message, location=source.location)
        if data[: len(MAGIC)] != MAGIC:
            raise corrupt(source.location, f"it begins with {data[:4]!r} and not with {MAGIC!r}")
        try:
            return _parse_header(data)
        except _TooShortError:
            if length == size:
                raise corrupt(source.location, f"it ends inside its header, after {size} bytes") from None
            length = min(size, 8 * length)
            data += source.read(len(data), length - len(data))
        except ValueError as error:
            raise corrupt(source.location, f"its header is damaged: {error}") from None


class _TooShortError(Exception):
    """There are more bytes to read than were given."""


def _varint(data: bytes | memoryview, place: int) -> tuple[int, int]:
    """The integer at `place`, and the place behind it."""
    bits = shift = 0
    while True:
        if place >= len(data):
            raise _TooShortError
        byte = data[place]
        place += 1
        if shift == 63 and byte > 1:
            raise ValueError("an integer has more than 64 bits")
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), place
        shift += 7


def _sized(data: bytes, place: int) -> tuple[bytes, int]:
    length, place = _varint(data, place)
    if length < 0:
        raise ValueError("a length is negative")
    if place + length > len(data):
        raise _TooShortError
    return data[place : place + length], place + length


def _parse_header(data: bytes) -> Header:
    metadata: dict[str, bytes] = {}
    place = len(MAGIC)
    while True:
        entries, place = _varint(data, place)
        if not entries:
            break
        if entries < 0:
            # The length of the entries in bytes follows, for readers that pass over them.
            entries = -entries
            _, place = _varint(data, place)
        for _ in range(entries):
            name, place = _sized(data, place)
            value, place = _sized(data, place)
            metadata[name.decode("utf-8", "replace")] = value
    if place + SYNC_BYTES > len(data):
        raise _TooShortError
    return Header(metadata=metadata, sync=data[place : place + SYNC_BYTES], end=place + SYNC_BYTES, head=data)


def blocks(source: ByteSource, header: Header, split: Split | None) -> Iterator[Block]:
    """The blocks of a split, in file order. The source is told at once what will be read.

    A block belongs to the split that holds the first byte of the marker before it. Splits that tile the file thus hold
    each block once, and can find their blocks without reading what comes before.
    """
    size = source.size()
    if split is None or split.start <= header.end - SYNC_BYTES:
        start, marker_from = header.end, None
    else:
        start = marker_from = split.start
    end = size if split is None else min(size, split.end)
    last = end + _BEHIND_BYTES if start - SYNC_BYTES < end else start
    windows = Windows(source, memoryview(header.head), start, last)
    return _blocks(windows, source.location, header, marker_from, end, size)


def _blocks(
    windows: Windows, location: str, header: Header, marker_from: int | None, end: int, size: int
) -> Iterator[Block]:
    offset = header.end
    if marker_from is not None:
        found = _find_marker(windows, header.sync, marker_from, end)
        if found is None:
            return
        offset = found + SYNC_BYTES
    while offset < size and offset - SYNC_BYTES < end:
        rows, start, length = _block_header(windows.read(offset, _LONGEST_HEADER), offset, size, location)
        payload = windows.read(start, length + SYNC_BYTES)
        if payload[length:] != header.sync:
            message = f"the block at byte {offset} does not end with the marker of the file"
            raise corrupt(location, message)
        yield Block(offset=offset, rows=rows, payload=payload[:length])
        offset = start + length + SYNC_BYTES


def _find_marker(windows: Windows, marker: bytes, start: int, end: int) -> int | None:
    """Where the first marker is that begins in the range."""
    while start < end:
        data = bytes(windows.read(start, min(_WALK_BYTES, end - start) + SYNC_BYTES - 1))
        if (found := data.find(marker)) >= 0:
            return start + found
        start += _WALK_BYTES
    return None


def _block_header(data: bytes | memoryview, offset: int, size: int, location: str) -> tuple[int, int, int]:
    """How many rows a block has, where its payload begins and how long that is."""
    try:
        rows, place = _varint(data, 0)
        length, place = _varint(data, place)
    except (_TooShortError, ValueError):
        raise corrupt(location, f"the header of the block at byte {offset} is damaged or cut off") from None
    if rows < 0 or length < 0:
        raise corrupt(location, f"the block at byte {offset} says that it has {rows} rows in {length} bytes")
    if length > size - offset - place - SYNC_BYTES:
        raise corrupt(location, f"the block at byte {offset} runs past the end of the file")
    return rows, offset + place, length


class RowOrdinals:
    """How many rows come before each block, found by walking over block headers and kept for further reads."""

    def __init__(self, source: ByteSource, header: Header) -> None:
        self._source = source
        self._lock = Lock()
        self._start, self._data = 0, memoryview(header.head)
        self._next = header.end
        self._rows = 0
        self._before: dict[int, int] = {}

    def before(self, offset: int) -> int:
        """The ordinal of the first row of the block that begins at `offset`."""
        with self._lock:
            self._walk(offset)
            if offset not in self._before:
                message = f"no block begins at byte {offset}, although a marker ends there"
                raise corrupt(self._source.location, message)
            return self._before[offset]

    def totals(self) -> tuple[int, int]:
        """How many blocks and rows the file has."""
        with self._lock:
            self._walk(self._source.size() - 1)
            return len(self._before), self._rows

    def _walk(self, last: int) -> None:
        size = self._source.size()
        while self._next <= last and self._next < size:
            rows, start, length = _block_header(self._peek(size), self._next, size, self._source.location)
            self._before[self._next] = self._rows
            self._rows += rows
            self._next = start + length + SYNC_BYTES

    def _peek(self, size: int) -> memoryview:
        """The header of the next block, with what more was read because other headers may be in it."""
        place, length = self._next - self._start, min(_LONGEST_HEADER, size - self._next)
        if place + length > len(self._data):
            self._data = self._source.read(self._next, min(_WALK_BYTES, size - self._next))
            self._start, place = self._next, 0
        return self._data[place : place + length]
