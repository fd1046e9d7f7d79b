"""Files that no snapshot refers to yet, and their removal if none ever will."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from formatkit.errors import CommitStateUnknownError, ConfigurationError, printable, without_secrets
from formatkit.forks import fork_safe
from formatkit.io import RuntimeFileIO
from formatkit.io.wrapping import file_io_behind

__all__ = ["UncommittedFiles"]

_log = logging.getLogger(__name__)


class UncommittedFiles:
    """Deletes the files that were written inside a ``with`` block, unless a snapshot may refer to them.

        with UncommittedFiles(table.io) as files:
            files.add(location)              # before anything is written there
            ...
            commit(table, change, files=files)

    Files stay when `keep` was called, and when it is not known whether the commit took place. May be used from several
    threads.
    """

    def __init__(self, io: FileIO) -> None:
        self._io = RuntimeFileIO.around(io)
        self._locations: dict[str, None] = {}
        self._kept = False
        self._process = os.getpid()
        self._lock = fork_safe(threading.Lock())

    def add(self, location: str) -> str:
        """Remember a file that is about to be written; returns its location.

        Raises:
            ConfigurationError: The table's `FileIO` would write to another path.
        """
        _require_whole_path(self._io, location)
        with self._lock:
            self._locations[location] = None
        return location

    def forget(self, location: str) -> None:
        """Leave a file to others, or be done with one that is deleted already."""
        with self._lock:
            self._locations.pop(location, None)

    @property
    def locations(self) -> tuple[str, ...]:
        """The files that would be deleted now, in the order of their creation."""
        with self._lock:
            # A child that a fork put inside the block leaves it, too, while its parent still writes.
            return () if self._kept or self._process != os.getpid() else tuple(self._locations)

    def keep(self) -> None:
        """The files belong to the table now, or may do so."""
        self._kept = True

    def unkeep(self) -> None:
        """The files certainly do not belong to the table, after all."""
        self._kept = False

    def discard(self, *, needed: Collection[str] = ()) -> None:
        """Delete the files now, but for those that are still needed.

        A file that cannot be deleted is logged and left: an error that made others fail must not be hidden by it.
        """
        for location in self.locations:
            if location in needed:
                continue
            self.forget(location)
            try:
                with suppress(FileNotFoundError):
                    self._io.delete(location)
            except Exception as error:  # noqa: BLE001 - storage fails in any way it likes
                _log.warning(
                    "cannot delete %s, to which no snapshot refers: %s",
                    printable(without_secrets(location)),
                    printable(without_secrets(f"{error}")),
                )

    def __enter__(self) -> UncommittedFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, CommitStateUnknownError):
            self.keep()
        self.discard()


def _require_whole_path(io: FileIO, location: str) -> None:
    if not ("#" in location or "?" in location) or not isinstance(file_io_behind(io, location), PyArrowFileIO):
        return
    # It takes what stands behind these for the fragment or the query of a URL, and all files would share one path.
    path = PyArrowFileIO.parse_location(location)[2]
    if any(path.count(mark) != location.count(mark) for mark in "#?"):
        message = (
            f"{without_secrets(location)}: pyiceberg's PyArrowFileIO would write to {path}; use a table location "
            "without '#' and '?', or another FileIO (py-io-impl)"
        )
        raise ConfigurationError(message, location=location)
