"""Files in memory: what tests, caches and one-off conversions need."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import BinaryIO, cast

import pyarrow as pa

from formatkit.contract.storage import ByteRange
from formatkit.errors import FileAlreadyExistsError
from formatkit.io.failures import closed_source, out_of_range

__all__ = ["MemorySink", "MemorySource"]


class MemorySource:
    """Bytes in memory; reads are views of them."""

    def __init__(self, data: bytes | bytearray | memoryview | pa.Buffer, *, location: str = "<memory>") -> None:
        self._data = memoryview(data).cast("B")
        self._location = location
        self._closed = False
        self._files: list[pa.BufferReader] = []

    @property
    def location(self) -> str:
        return self._location

    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, length: int) -> memoryview:
        if self._closed:
            raise closed_source(self._location)
        if offset < 0 or length < 0 or offset + length > len(self._data):
            raise out_of_range(self._location, offset, length, len(self._data))
        return self._data[offset : offset + length]

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        pass

    def open(self) -> BinaryIO:
        if self._closed:
            raise closed_source(self._location)
        file = pa.BufferReader(pa.py_buffer(self._data))
        self._files.append(file)
        return cast("BinaryIO", file)

    def local_path(self) -> str | None:
        return None

    def close(self) -> None:
        self._closed = True
        for file in self._files:
            file.close()


class MemorySink:
    """The place of a file in memory. `data` is what was published, or None."""

    def __init__(self, *, location: str = "<memory>") -> None:
        self._location = location
        self.data: bytes | None = None

    @property
    def location(self) -> str:
        return self._location

    def create(self, *, overwrite: bool = False) -> MemorySinkStream:
        if self.data is not None and not overwrite:
            raise FileAlreadyExistsError(
                f"cannot create {self._location}: a file is already there; pass overwrite=True", location=self._location
            )
        return MemorySinkStream(self)


class MemorySinkStream:
    """Collects bytes and hands them to its sink on `close`."""

    def __init__(self, sink: MemorySink) -> None:
        self._sink = sink
        self._buffer = io.BytesIO()

    def write(self, data: bytes | memoryview, /) -> int:
        return self._buffer.write(data)

    def tell(self) -> int:
        return self._buffer.tell()

    def flush(self) -> None:
        pass

    @property
    def closed(self) -> bool:
        return self._buffer.closed

    def close(self) -> None:
        if not self._buffer.closed:
            self._sink.data = self._buffer.getvalue()
            self._buffer.close()

    def abort(self) -> None:
        self._buffer.close()
