"""Storages that break a clause."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from formatkit.contract import ByteRange, ByteSink, ByteSource
from formatkit.errors import CorruptFileError
from formatkit.io import LocalSink, LocalSource
from formatkit.io.local import LocalSinkStream
from formatkit.tck import Subject
from formatkit.tck.storages import LocalStorage
from support.faults import fault
from support.faulty.writing import subject


def _on(source: type[LocalSource] = LocalSource, sink: type[LocalSink] = LocalSink) -> Subject[Any]:
    """Arrow files in a folder, through these."""

    class Faulty(LocalStorage):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self.folder = folder

        def sink(self, name: str) -> ByteSink:
            return sink(self.folder / name)

        def source(self, name: str) -> ByteSource:
            return source(self.folder / name)

    return subject(storages=(Faulty,))


@fault("threads_read_one_source_at_once")
def threads_share_one_cursor() -> Subject[Any]:
    class Shared(LocalSource):
        file: Any = None

        def read(self, offset: int, length: int) -> memoryview:
            self.file = self.file or self.open()
            self.file.seek(offset)
            time.sleep(0.0005)
            return memoryview(self.file.read(length))

    return _on(Shared)


@fault("reads_outside_of_a_file_are_refused")
def a_read_over_the_end_is_short() -> Subject[Any]:
    class Short(LocalSource):
        def read(self, offset: int, length: int) -> memoryview:
            return super().read(offset, min(length, self.size() - offset))

    return _on(Short)


@fault("a_file_that_is_missing_is_named")
def a_missing_file_is_empty() -> Subject[Any]:
    class Empty(LocalSource):
        def size(self) -> int:
            return super().size() if os.path.exists(str(self.local_path())) else 0  # noqa: PTH110

    return _on(Empty)


@fault("prefetching_is_mere_advice")
def prefetching_over_the_end_fails() -> Subject[Any]:
    class Strict(LocalSource):
        def prefetch(self, ranges: Sequence[ByteRange]) -> None:
            if any(one.end > self.size() for one in ranges):
                raise CorruptFileError("there is nothing to prefetch")

    return _on(Strict)


@fault("a_closed_source_holds_nothing_open")
def closing_does_nothing() -> Subject[Any]:
    class Open(LocalSource):
        def close(self) -> None:
            pass

    return _on(Open)


@fault("files_are_the_same_in_every_storage")
def the_last_bytes_are_not_flushed() -> Subject[Any]:
    class Stream(LocalSinkStream):
        def close(self) -> None:
            super().close()
            os.truncate(self._path, max(0, os.path.getsize(self._path) - 8))  # noqa: PTH202

    class Sink(LocalSink):
        def create(self, *, overwrite: bool = False) -> LocalSinkStream:
            return Stream(self._path, self._location, overwrite=overwrite)

    return _on(sink=Sink)


@fault("a_location_that_is_taken_stays_as_it_is")
def a_sink_always_replaces() -> Subject[Any]:
    class Sink(LocalSink):
        def create(self, *, overwrite: bool = False) -> LocalSinkStream:
            return super().create(overwrite=True)

    return _on(sink=Sink)


@fault("a_file_is_not_seen_before_it_is_complete")
def a_file_grows_in_its_place() -> Subject[Any]:
    class Sink(LocalSink):
        def create(self, *, overwrite: bool = False) -> LocalSinkStream:
            self._path.touch()
            return super().create(overwrite=True)

    return _on(sink=Sink)


@fault("aborting_leaves_the_location_as_it_was")
def what_is_to_be_replaced_is_removed_first() -> Subject[Any]:
    class Sink(LocalSink):
        def create(self, *, overwrite: bool = False) -> LocalSinkStream:
            if overwrite:
                self._path.unlink(missing_ok=True)
            return super().create(overwrite=overwrite)

    return _on(sink=Sink)
