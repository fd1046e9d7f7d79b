"""A storage that misbehaves: streams that give fewer bytes than asked, or none, or others, or never answer."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

__all__ = ["OddFileIO", "OddInput", "OddStream", "Silence"]


class Silence:
    """Calls of these names never answer, until `end`."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self._over = threading.Event()

    def end(self) -> None:
        self.names.clear()
        self._over.set()

    def __call__(self, name: str) -> None:
        if name in self.names:
            self._over.wait()


class OddStream:
    """A stream with a cursor whose `read` a test decides.

    Args:
        content: Of the file.
        read: From the content, the cursor and how many bytes are asked for to the answer.
        silence: Which calls hang.
        seeks: Whether it goes where it is sent.
    """

    def __init__(
        self, content: bytes, read: Callable[[bytes, int, int], Any], silence: Silence, *, seeks: bool = True
    ) -> None:
        self._seeks = seeks
        self._content = content
        self._read = read
        self._position = 0
        self._silence = silence

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset if self._seeks else 0
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> Any:
        self._silence("read")
        left = len(self._content) - self._position
        answer = self._read(self._content, self._position, left if size < 0 else min(size, left))
        self._position += len(answer or b"")
        return answer

    def close(self) -> None:
        self._silence("close")

    def __enter__(self) -> OddStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _as_asked(content: bytes, position: int, size: int) -> bytes:
    return content[position : position + size]


class OddInput(InputFile):
    """A local file behind an odd stream."""

    def __init__(
        self,
        path: Path,
        read: Callable[[bytes, int, int], Any] = _as_asked,
        silence: Silence | None = None,
        length: int | None = None,
        location: str | None = None,
        seeks: bool = True,
    ) -> None:
        super().__init__(location or f"odd://{path}")
        self._path = path
        self._read = read
        self._silence = silence or Silence()
        self._length = length
        self._seeks = seeks

    def __len__(self) -> int:
        self._silence("length")
        return self._path.stat().st_size if self._length is None else self._length

    def exists(self) -> bool:
        self._silence("exists")
        return self._path.exists()

    def open(self, seekable: bool = True) -> Any:
        self._silence("open")
        return OddStream(self._path.read_bytes(), self._read, self._silence, seeks=self._seeks)


class _OddOutput(OutputFile):
    def __init__(self, location: str, path: Path, silence: Silence, most: int | None) -> None:
        super().__init__(location)
        self._path = path
        self._silence = silence
        self._most = most

    def __len__(self) -> int:
        return self._path.stat().st_size

    def exists(self) -> bool:
        self._silence("exists")
        return self._path.exists()

    def to_input_file(self) -> InputFile:
        return OddInput(self._path, silence=self._silence)

    def create(self, overwrite: bool = False) -> Any:
        self._silence("create")
        return _OddOutputStream(self._path, self._silence, self._most)


class _OddOutputStream:
    def __init__(self, path: Path, silence: Silence, most: int | None) -> None:
        self._path = path
        path.write_bytes(b"")
        self._silence = silence
        self._most = most

    def write(self, data: Any) -> int:
        self._silence("write")
        # Opened each time: a thread that hangs would leave it open.
        with self._path.open("ab") as file:
            return file.write(memoryview(data)[: self._most])

    def close(self) -> None:
        self._silence("close")

    def __enter__(self) -> _OddOutputStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OddFileIO(FileIO):
    """Files of a folder. `silence` says which calls hang, `most` how many bytes a write takes at a time."""

    def __init__(
        self, folder: Path, silence: Silence, most: int | None = None, properties: dict[str, str] | None = None
    ) -> None:
        super().__init__(properties or {})
        self._folder = folder
        self._silence = silence
        self._most = most

    def new_input(self, location: str) -> InputFile:
        self._silence("new_input")
        return OddInput(self._path(location), silence=self._silence, location=location)

    def new_output(self, location: str) -> OutputFile:
        self._silence("new_output")
        return _OddOutput(location, self._path(location), self._silence, self._most)

    def delete(self, location: Any) -> None:
        self._silence("delete")
        self._path(location if isinstance(location, str) else location.location).unlink()

    def _path(self, location: str) -> Path:
        return self._folder / location.rpartition("/")[2]
