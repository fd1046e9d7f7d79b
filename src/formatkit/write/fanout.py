"""Writes to many partitions at a time with a bounded number of open files and a bounded amount of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from pyiceberg.manifest import DataFile

from formatkit.write.partition import Split
from formatkit.write.rolling import FileMaker, RollingFiles

__all__ = ["FanOut"]


class FanOut:
    """The files of all partitions that rows may still come for.

    Rows wait in memory until there are enough of them to be written, and until one of the open files may be theirs.
    When too much waits, the partitions that hold the most memory are written and their files finished. Files that are
    finished early are smaller than asked for; with input that is clustered by partition there are none of those.

    Args:
        maker: Makes the files.
        most_open: So many files are open at the most.
        buffer_bytes: About how much memory the rows of all partitions may take together.
        clustered: Whether to finish the files of a partition when the next one begins. If left out, this is done as
            long as no partition comes back.
    """

    def __init__(self, maker: FileMaker, *, most_open: int, buffer_bytes: int, clustered: bool | None) -> None:
        self._maker = maker
        self._most_open = most_open
        self._buffer_bytes = buffer_bytes
        self._always_clustered = bool(clustered)
        self._clustered = clustered is not False
        self._shared_bytes = 0
        self._past: set[tuple[Any, ...]] = set()
        self._partitions: dict[tuple[Any, ...], RollingFiles] = {}
        self.finished: list[DataFile] = []

    def write(self, split: Split) -> None:
        """Take the rows of one batch."""
        self._clustered = self._clustered and (self._always_clustered or self._is_still_clustered(split))
        for partition, rows in split.parts:
            if partition.key not in self._partitions:
                if self._clustered:
                    self._finish(list(self._partitions))
                self._partitions[partition.key] = RollingFiles(partition.values, self._maker)
            self._partitions[partition.key].add(rows, shared=split.shared_bytes > 0)
            if self._clustered and self._partitions[partition.key].is_worth_writing:
                self._partitions[partition.key].write()
        if not self._clustered:
            self._write_what_may_be_open(partition.key for partition, _ in split.parts)
            self._make_room()
        self._let_go(split.shared_bytes)

    def close(self) -> tuple[DataFile, ...]:
        """Finish all files."""
        self._finish(list(self._partitions))
        return tuple(self.finished)

    def abort(self) -> None:
        """Give up all files that are not finished."""
        with ExitStack() as all_of_them:
            for files in self._partitions.values():
                all_of_them.callback(files.abort)
        self._partitions.clear()

    def _is_still_clustered(self, split: Split) -> bool:
        return split.clustered and self._past.isdisjoint(partition.key for partition, _ in split.parts)

    def _write_what_may_be_open(self, keys: Iterable[tuple[Any, ...]]) -> None:
        open_files = sum(files.is_open for files in self._partitions.values())
        for key in keys:
            files = self._partitions[key]
            if files.is_worth_writing and (files.is_open or open_files < self._most_open):
                open_files -= files.is_open
                files.write()
                open_files += files.is_open

    def _let_go(self, shared_bytes: int) -> None:
        """A single row keeps all rows that came with it in memory, unless it is copied some time."""
        self._shared_bytes += shared_bytes
        if self._shared_bytes > self._buffer_bytes // 4:
            self._shared_bytes = 0
            for files in self._partitions.values():
                files.own()

    def _make_room(self) -> None:
        held = sum(files.memory_bytes for files in self._partitions.values())
        if held <= self._buffer_bytes:
            return
        largest = iter(sorted(self._partitions, key=lambda key: self._partitions[key].memory_bytes, reverse=True))
        self._finish(self._until_half_is_free(largest, held))

    def _until_half_is_free(self, keys: Iterator[tuple[Any, ...]], held: int) -> list[tuple[Any, ...]]:
        chosen: list[tuple[Any, ...]] = []
        while held > self._buffer_bytes // 2:
            chosen.append(next(keys))
            held -= self._partitions[chosen[-1]].memory_bytes
        return chosen

    def _finish(self, keys: list[tuple[Any, ...]]) -> None:
        for key in keys:
            files = self._partitions[key]
            files.close()
            self.finished += files.finished
            del self._partitions[key]
            self._past.add(key)
