"""Plugins of a registry, looked at while files are read, and given a note while files are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar, cast

import pyarrow as pa

from formatkit.contract import (
    BatchStream,
    ByteSink,
    ByteSource,
    DataBatch,
    FormatFile,
    FormatFileWriter,
    FormatPlugin,
    FormatReader,
    FormatWriter,
    OpenOptions,
    ReadOptions,
    ReadResult,
    WriteOptions,
)
from formatkit.integrations.pyiceberg.offsets import ARROW_SCHEMA, Offsets, as_noted
from formatkit.registry import FormatRegistry

__all__ = ["NotingRegistry", "WatchingRegistry"]

B = TypeVar("B")


class _Behind(FormatRegistry):
    """Has what another registry has."""

    def __init__(self, registry: FormatRegistry) -> None:
        super().__init__()
        self._registry = registry

    def plugin(self, file_format: str, batch_type: type[B]) -> FormatPlugin[B]:
        return self._registry.plugin(file_format, batch_type)

    def batches(self, batch_type: type[B]) -> DataBatch[B]:
        return self._registry.batches(batch_type)

    def names(self) -> tuple[str, ...]:
        return self._registry.names()


class WatchingRegistry(_Behind):
    """Tells `offsets` of each file that gives rows."""

    def __init__(self, registry: FormatRegistry, offsets: Offsets) -> None:
        super().__init__(registry)
        self._offsets = offsets

    def plugin(self, file_format: str, batch_type: type[B]) -> FormatPlugin[B]:
        return cast("FormatPlugin[B]", _WatchedPlugin(super().plugin(file_format, batch_type), self._offsets))


class NotingRegistry(_Behind):
    """Lets files of Parquet note the Arrow types in which their rows are to be read."""

    def __init__(self, registry: FormatRegistry, noted: pa.Schema) -> None:
        super().__init__(registry)
        self._noted = noted

    def plugin(self, file_format: str, batch_type: type[B]) -> FormatPlugin[B]:
        found = super().plugin(file_format, batch_type)
        return cast("FormatPlugin[B]", _NotingPlugin(found, self._noted)) if file_format == "parquet" else found


class _Passing:
    """Passes on what it does not do itself."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


class _WatchedPlugin(_Passing):
    def __init__(self, plugin: FormatPlugin[Any], offsets: Offsets) -> None:
        super().__init__(plugin)
        self._offsets = offsets

    def reader(self) -> _WatchedReader:
        return _WatchedReader(self._behind.reader(), self._offsets)


class _WatchedReader(_Passing):
    def __init__(self, reader: FormatReader[Any], offsets: Offsets) -> None:
        super().__init__(reader)
        self._offsets = offsets

    def open(self, source: ByteSource, options: OpenOptions) -> _WatchedFile:
        return _WatchedFile(self._behind.open(source, options), source.location, self._offsets)


class _WatchedFile(_Passing):
    def __init__(self, file: FormatFile[Any], location: str, offsets: Offsets) -> None:
        super().__init__(file)
        self._location = location
        self._offsets = offsets

    def read(self, options: ReadOptions) -> ReadResult[Any]:
        result = self._behind.read(options)
        return cast(
            "ReadResult[Any]",
            replace(result, batches=BatchStream(self._noted(result.batches), result.batches.close)),
        )

    def _noted(self, batches: BatchStream[Any]) -> Iterator[Any]:
        with batches:
            for batch in batches:
                if batch.num_rows:
                    self._offsets.note(self._location, self._behind)
                yield batch


class _NotingPlugin(_Passing):
    def __init__(self, plugin: FormatPlugin[Any], noted: pa.Schema) -> None:
        super().__init__(plugin)
        self._noted = noted

    def writer(self) -> _NotingWriter:
        return _NotingWriter(self._behind.writer(), self._noted)


class _NotingWriter(_Passing):
    def __init__(self, writer: FormatWriter[Any], noted: pa.Schema) -> None:
        super().__init__(writer)
        self._noted = noted

    def open(self, sink: ByteSink, options: WriteOptions) -> FormatFileWriter[Any]:
        metadata = {**options.metadata, ARROW_SCHEMA: as_noted(self._noted)}
        return cast("FormatFileWriter[Any]", self._behind.open(sink, replace(options, metadata=metadata)))
