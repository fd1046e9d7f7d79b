"""What is going to be deleted, written down before it happens."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyiceberg.io import FileIO

from formatkit.io import local_path, open_sink
from formatkit.io.failures import storage_failures

__all__ = ["Journal", "new_journal"]

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND


class Journal:
    """A file of JSON lines: the plan, which is on disk before `__init__` returns, then what became of each file.

    Args:
        location: A path. There must be no file yet.
        plan: The lines of the plan.
    """

    def __init__(self, location: str, plan: Iterable[dict[str, Any]]) -> None:
        self.location = location
        path = Path(local_path(location) or location)
        with storage_failures(location, "write the journal"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, _NEW_FILE, 0o644)
            try:
                with open(self._descriptor, "wb", closefd=False) as stream:
                    stream.writelines(map(_line, plan))
                os.fsync(self._descriptor)
                folder = os.open(path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            except BaseException:
                os.close(self._descriptor)
                raise

    def note(self, line: dict[str, Any]) -> None:
        """Add a line."""
        # Files are being deleted by now, and the plan is safe: a full disk must not hide what became of them.
        with suppress(OSError):
            os.write(self._descriptor, _line(line))

    def close(self) -> None:
        with suppress(OSError):
            os.fsync(self._descriptor)
        os.close(self._descriptor)


class _StoredJournal(Journal):
    """The same on storage whose files cannot grow: the plan, and a second file beside it when all is done."""

    def __init__(self, location: str, plan: Iterable[dict[str, Any]], io: FileIO) -> None:
        self.location = location
        self._io = io
        self._notes: list[bytes] = []
        self._store(location, b"".join(map(_line, plan)))

    def note(self, line: dict[str, Any]) -> None:
        self._notes.append(_line(line))

    def close(self) -> None:
        with suppress(OSError):
            self._store(f"{self.location.removesuffix('.jsonl')}-outcome.jsonl", b"".join(self._notes))

    def _store(self, location: str, content: bytes) -> None:
        stream = open_sink(location, self._io).create()
        try:
            stream.write(content)
            stream.close()
        except BaseException:
            stream.abort()
            raise


def new_journal(location: str | os.PathLike[str], plan: Iterable[dict[str, Any]], io: FileIO) -> Journal:
    """Write the plan to a new file.

    Raises:
        StorageError: It cannot be written, or there is a file already.
    """
    spelled = os.fspath(location)
    if isinstance(location, os.PathLike) or local_path(spelled) is not None:
        return Journal(spelled, plan)
    return _StoredJournal(spelled, plan, io)


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"
