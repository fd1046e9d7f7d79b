"""Places where writing fails half-way."""

from __future__ import annotations

from formatkit.contract import SinkStream
from formatkit.errors import StorageError
from formatkit.io import MemorySink

__all__ = ["FailingSink"]


class FailingSink(MemorySink):
    """Takes so many bytes and no more."""

    def __init__(self, *, room: int, location: str = "<memory>") -> None:
        super().__init__(location=location)
        self._room = room
        self.streams: list[SinkStream] = []

    def create(self, *, overwrite: bool = False) -> SinkStream:  # type: ignore[override]  # a stream of another class
        stream = _FailingStream(super().create(overwrite=overwrite), self._room)
        self.streams.append(stream)
        return stream


class _FailingStream:
    def __init__(self, inner: SinkStream, room: int) -> None:
        self._inner = inner
        self._room = room

    def write(self, data: bytes | memoryview, /) -> int:
        if self._inner.tell() + len(data) > self._room:
            raise StorageError("the disk is full")
        return self._inner.write(data)

    def tell(self) -> int:
        return self._inner.tell()

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()

    @property
    def closed(self) -> bool:
        return self._inner.closed
