"""The data files of one run, each of them open once, whatever number of tasks read it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from formatkit.contract.format import FormatFile, FormatPlugin, SaysWhatItOpensWith
from formatkit.contract.options import OpenOptions, Split
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.scan.opening import open_file, part_of
from formatkit.scan.run_sources import RunSources
from formatkit.scan.tasks import PUFFIN, DeleteFile, FileTask

__all__ = ["OpenFiles"]

B = TypeVar("B")

_TAIL_BYTES = 64 << 10
# What storage that is neither fast nor slow brings while it takes to answer.
_BEGINNING_BYTES = 4 << 20


@dataclass
class _OpenFile(Generic[B]):
    """A file that several tasks read; open while one of them is still to come."""

    tasks_left: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    file: FormatFile[B] | None = None
    source: ByteSource | None = None
    size: int | None = None

    def close(self) -> None:
        file, source, self.file, self.source = self.file, self.source, None, None
        try:
            if file is not None:
                file.close()
        finally:
            if source is not None:
                source.close()


class OpenFiles(Generic[B]):
    """Opens files when they are first needed, from whatever thread, and closes them after their last task.

    Args:
        tasks: All tasks of the run.
        plugins: By file format.
        sources: From a task to its bytes.
        owns_sources: Whether sources are closed after use.
        properties: For the readers.
    """

    def __init__(
        self,
        tasks: Iterable[FileTask],
        plugins: Mapping[str, FormatPlugin[B]],
        sources: RunSources,
        *,
        owns_sources: bool,
        properties: Mapping[str, str],
    ) -> None:
        counts = Counter(task.location for task in tasks)
        self._files = {location: _OpenFile[B](count) for location, count in counts.items()}
        self._plugins = plugins
        self._sources = sources
        self._owns_sources = owns_sources
        self._properties = properties
        self._lock = threading.Lock()
        self.opened = 0

    def announce(self, file: FileTask | DeleteFile) -> None:
        """Begin to fetch what a file is opened with."""
        self._sources.announce(file, lambda size: self._opening_ranges(file, size))

    def announce_first(self, task: FileTask, *, whole: bool) -> None:
        """The same for a file that is opened now, and its beginning too if all of it will be read."""

        def ranges(size: int) -> Sequence[ByteRange]:
            first = self._opening_ranges(task, size)
            start, end = (0, size) if task.split is None else (task.split.start, min(task.split.end, size))
            if not whole or start >= end:
                return first
            if size <= _BEGINNING_BYTES:
                return (ByteRange(0, size),)
            return (*first, ByteRange(start, min(end - start, _BEGINNING_BYTES)))

        self._sources.announce(task, ranges, now=True)

    def open(self, task: FileTask) -> FormatFile[B]:
        """The file of a task, which must `release` it."""
        entry = self._files[task.location]
        with entry.lock:
            return entry.file if entry.file is not None else self._open(entry, task)

    def part(self, task: FileTask) -> Split | None:
        """What a task reads of its file, which is open."""
        size = self._files[task.location].size
        return task.split if size is None else part_of(task, size)

    def release(self, task: FileTask) -> None:
        """A task is done with its file."""
        entry = self._files[task.location]
        with entry.lock:
            entry.tasks_left -= 1
            if entry.tasks_left == 0:
                entry.close()

    def close(self) -> None:
        """Close what is still open. No task may be running."""
        for file in self._files.values():
            file.close()

    def _open(self, entry: _OpenFile[B], task: FileTask) -> FormatFile[B]:
        reader, options = self._plugins[task.file_format].reader(), OpenOptions(properties=self._properties)
        if self._owns_sources:
            entry.source, entry.file = open_file(reader, task, self._sources, options)
            entry.size = entry.source.size()
        else:
            entry.file = reader.open(self._sources(task), options)
        with self._lock:
            self.opened += 1
        return entry.file

    def _opening_ranges(self, file: FileTask | DeleteFile, size: int) -> Sequence[ByteRange]:
        if file.file_format != PUFFIN:
            # Asking whether the reader is a `SaysWhatItOpensWith` takes longer.
            reader = self._plugins[file.file_format].reader()
            if hasattr(reader, "opening_ranges"):
                return cast("SaysWhatItOpensWith", reader).opening_ranges(size)
        return (ByteRange(max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES)),)
