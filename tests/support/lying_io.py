"""Storage in memory that answers as it is told to: short, late, with errors, wrong lengths or other bytes."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, get_args

from pyiceberg.io import FileIO, InputFile, OutputFile

__all__ = ["LIES", "LYING_IO", "STORE", "STORES", "Liar", "Lie", "LyingFileIO", "lying"]

LYING_IO = {"py-io-impl": "support.lying_io.LyingFileIO"}
STORE = "lying.store"
"""The property that names the store."""
STORES: dict[str, dict[str, bytes]] = {}
"""The contents of files by location, by the names of the stores."""

Lie = Literal["short", "long", "empty", "error", "late", "gone", "wrong length", "stale", "garbage"]
LIES: tuple[Lie, ...] = get_args(Lie)


@dataclass
class Liar:
    """Decides which answers are lies.

    Attributes:
        lies: The kinds of lies that are told.
        random: Decides; calls come from several threads, so their order may vary from run to run.
        share: How many of the answers are lies.
        most: How many lies are told at most.
        told: The lies that were told, by kind.
    """

    lies: tuple[Lie, ...]
    random: Random
    share: float = 0.3
    most: int = 1000
    told: list[Lie] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def lie(self, *allowed: Lie) -> Lie | None:
        """The lie to tell, if one is to be told and is of these kinds."""
        with self.lock:
            possible = [each for each in self.lies if each in allowed]
            if not possible or len(self.told) >= self.most or self.random.random() > self.share:
                return None
            self.told.append(self.random.choice(possible))
            return self.told[-1]


_HONEST = Liar((), Random(0))
_liar = _HONEST


@contextmanager
def lying(liar: Liar) -> Iterator[Liar]:
    """Let all stores of this process answer so inside a block."""
    global _liar  # noqa: PLW0603 - files are opened by code that cannot be given the liar
    _liar = liar
    try:
        yield liar
    finally:
        _liar = _HONEST


class LyingFileIO(FileIO):
    """Files of the store that its properties name."""

    @property
    def _store(self) -> dict[str, bytes]:
        return STORES[self.properties[STORE]]

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._store)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self._store)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        name = location if isinstance(location, str) else location.location
        if name not in self._store:
            raise FileNotFoundError(name)
        del self._store[name]


class _Input(InputFile):
    def __init__(self, location: str, store: dict[str, bytes]) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        length = len(self._content())
        if _liar.lie("wrong length"):
            return max(length + _liar.random.choice([-length, -100, -1, 1, 7, 1 << 20]), 0)
        return length

    def _content(self) -> bytes:
        if self.location not in self._store:
            raise FileNotFoundError(self.location)
        return self._store[self.location]

    def exists(self) -> bool:
        return self.location in self._store

    def open(self, seekable: bool = True) -> Any:
        match _liar.lie("error", "gone", "stale"):
            case "error":
                raise ConnectionResetError(f"{self.location}: connection reset by peer")
            case "gone":
                raise FileNotFoundError(self.location)
            case "stale":
                return _Stream(self.location, _liar.random.choice(sorted(self._store.values())))
        return _Stream(self.location, self._content())


class _Stream(io.RawIOBase):
    """A stream that may return fewer bytes than it is asked for, as the contract of raw streams allows, or worse."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__()
        self._location = location
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._content.seek(offset, whence)

    def tell(self) -> int:
        return self._content.tell()

    def read(self, size: int | None = -1) -> bytes:
        wanted = -1 if size is None else size
        lie = _liar.lie("short", "long", "empty", "error", "late", "gone", "garbage")
        match lie:
            case "error":
                raise OSError(5, "Input/output error", self._location)
            case "gone":
                raise FileNotFoundError(self._location)
            case "late":
                time.sleep(0.02)
            case "empty":
                return b""
            case "short" if wanted > 1:
                wanted = _liar.random.randint(1, wanted - 1)
        data = self._content.read(wanted)
        if lie == "long":
            return data + b"\0" * 17
        return _liar.random.randbytes(len(data)) if lie == "garbage" else data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))[: len(buffer)]
        buffer[: len(data)] = data
        return len(data)


class _Output(OutputFile):
    def __init__(self, location: str, store: dict[str, bytes]) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return len(self._store[self.location])

    def exists(self) -> bool:
        return self.location in self._store

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._store)

    def create(self, overwrite: bool = False) -> Any:
        if not overwrite and self.exists():
            raise FileExistsError(self.location)
        return _Written(self.location, self._store)


class _Written(io.BytesIO):
    def __init__(self, location: str, store: dict[str, bytes]) -> None:
        super().__init__()
        self._location, self._store = location, store

    def close(self) -> None:
        if not self.closed:
            self._store[self._location] = self.getvalue()
        super().close()
