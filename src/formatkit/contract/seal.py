"""A block of facts and checksums for files whose own format has no place for them.

Formats that find everything by offsets from the end leave unused bytes alone, so the block stands right before the
format's own tail. Readers that do not know it never look there:

    data | text of the facts | a CRC-32 for each 64 KiB of data | trailer | the format's tail

The trailer is little-endian: magic (8 bytes), length of the data (8), of the text (4), number of checksums (4), bytes a
checksum is for (4), CRC-32 of everything behind the data except itself and the magic (4), magic again (8). It stands
twice so that damage to one of them does not make a file look as if it had no seal.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isal.isal_zlib import crc32

from formatkit.contract.file_end import ReadableBytes
from formatkit.errors import CorruptFileError
from formatkit.forks import cached

__all__ = ["Checksums", "Seal", "find_seal", "sealed"]

BLOCK_BYTES = 1 << 16
_MAGIC = b"FKSEAL01"
_TRAILER = struct.Struct("<8sQIIII8s")
_NEAR_BYTES = 1 << 16
"""How far from the end a seal is looked for, lest a file with a damaged tail be taken for one that has none."""


class Checksums:
    """The checksums of data that goes by in pieces of any size."""

    def __init__(self) -> None:
        self._done: list[int] = []
        self._running = 0
        self.length = 0

    def update(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view.nbytes:
            room = BLOCK_BYTES - self.length % BLOCK_BYTES
            part = view[:room]
            self._running = crc32(part, self._running)
            self.length += part.nbytes
            if part.nbytes == room:
                self._done.append(self._running)
                self._running = 0
            view = view[room:]

    def values(self) -> list[int]:
        return [*self._done, self._running] if self.length % BLOCK_BYTES else list(self._done)


def sealed(checksums: Checksums, facts: Mapping[str, Any], tail: bytes) -> bytes:
    """The block and the tail: all that follows the data."""
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    values = checksums.values()
    body = text + struct.pack(f"<{len(values)}I", *values)
    numbers = (checksums.length, len(text), len(values), BLOCK_BYTES)
    check = _check(body, numbers, tail)
    return body + _TRAILER.pack(_MAGIC, *numbers, check, _MAGIC) + tail


def find_seal(source: ReadableBytes, tail_length: int) -> Seal | None:
    """The seal of a file, or None if it has none.

    Raises:
        CorruptFileError: There is one, and it is not what was written.
    """
    size = source.size()
    end = size - tail_length
    if tail_length < 0 or end < _TRAILER.size:
        return None
    before, *numbers, check, after = _TRAILER.unpack(source.read(end - _TRAILER.size, _TRAILER.size))
    if _MAGIC not in (before, after):
        near = min(size, _NEAR_BYTES)
        if _MAGIC in bytes(source.read(size - near, near)):
            raise _damaged(source, "its seal is not where it belongs")
        return None
    data_length, text_length, count, block_bytes = numbers
    if block_bytes == 0 or data_length + text_length + 4 * count + _TRAILER.size != end:
        raise _damaged(source, "the lengths in its seal do not add up")
    behind_data = bytes(source.read(data_length, size - data_length))
    body, tail = behind_data[: text_length + 4 * count], behind_data[len(behind_data) - tail_length :]
    if before != after or check != _check(body, numbers, tail) or count != -(-data_length // block_bytes):
        raise _damaged(source, "its seal does not match its checksum")
    return Seal(
        facts=json.loads(body[:text_length].decode("utf-8", "surrogatepass")),
        data_length=data_length,
        block_bytes=block_bytes,
        checksums=struct.unpack_from(f"<{count}I", body, text_length),
        behind_data=behind_data,
        tail_length=tail_length,
    )


@dataclass(frozen=True, kw_only=True)
class Seal:
    """What the seal of a file says.

    Attributes:
        facts: What the writer wanted to be found again, as JSON values.
        data_length: How many bytes the checksums are for; they begin at the start of the file.
        block_bytes: How many bytes one checksum is for.
        checksums: One for each block.
        behind_data: Everything behind the data, already checked.
        tail_length: How many bytes follow the seal.
    """

    facts: Mapping[str, Any]
    data_length: int
    block_bytes: int
    checksums: Sequence[int]
    behind_data: bytes
    tail_length: int

    @cached
    def size(self) -> int:
        """The length of the whole file."""
        return self.data_length + len(self.behind_data)

    def read(self, source: ReadableBytes, offset: int, length: int) -> memoryview:
        """Bytes of the file that are known to be as they were written.

        Raises:
            CorruptFileError: They are not.
        """
        end = offset + length
        if offset >= self.data_length:
            start = offset - self.data_length
            return memoryview(self.behind_data)[start : start + length]
        first = offset - offset % self.block_bytes
        last = min(-(-end // self.block_bytes) * self.block_bytes, self.data_length)
        data = source.read(first, last - first)
        self.verify(source, first, data)
        if end > self.data_length:
            return memoryview(b"".join((data[offset - first :], self.behind_data[: end - self.data_length])))
        return data[offset - first : end - first]

    def verify(self, source: ReadableBytes, offset: int, data: memoryview) -> None:
        """Check whole blocks from `offset` on; the last one may be the short one at the end of the data."""
        first = offset // self.block_bytes
        for number, start in enumerate(range(0, data.nbytes, self.block_bytes), start=first):
            if crc32(data[start : start + self.block_bytes]) != self.checksums[number]:
                at = number * self.block_bytes
                raise _damaged(source, f"the bytes from {at} on do not match their checksum")


def _check(body: bytes, numbers: Sequence[int], tail: bytes) -> int:
    return int(crc32(tail, crc32(struct.pack("<QIII", *numbers), crc32(body))))


def _damaged(source: ReadableBytes, what: str) -> CorruptFileError:
    return CorruptFileError(f"{source.location}: is damaged: {what}", location=source.location)
