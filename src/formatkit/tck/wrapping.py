"""Plugins around plugins, whose files differ from those inside in one thing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

from pyiceberg.schema import Schema

from formatkit.contract import (
    ByteSource,
    Capability,
    FormatFile,
    FormatPlugin,
    FormatReader,
    FormatWriter,
    OpenOptions,
    ReadOptions,
    ReadResult,
)

__all__ = ["WrappedFile", "WrappedFormat"]

B = TypeVar("B")


class WrappedFile(Generic[B]):
    """A file that does what another does, but for what a subclass does otherwise."""

    def __init__(self, file: FormatFile[B]) -> None:
        self.file = file

    @property
    def schema(self) -> Schema:
        return self.file.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self.file.unreadable

    @property
    def row_count(self) -> int | None:
        return self.file.row_count

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return self.file.split_offsets

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.file.metadata

    def read(self, options: ReadOptions) -> ReadResult[B]:
        return self.file.read(options)

    def describe(self) -> Mapping[str, Any]:
        return self.file.describe()

    def close(self) -> None:
        self.file.close()


class WrappedFormat(Generic[B]):
    """A plugin that writes as another does, and wraps the files that it opens.

    Args:
        plugin: What is wrapped.
        wrap: From an open file to what is handed out in its stead.
        without: Capabilities that are no longer declared.
    """

    def __init__(
        self,
        plugin: FormatPlugin[B],
        wrap: Callable[[FormatFile[B]], FormatFile[B]],
        *,
        without: Collection[Capability] = (),
    ) -> None:
        self._plugin = plugin
        self._wrap = wrap
        self.file_format = plugin.file_format
        self.batch_type = plugin.batch_type
        self.capabilities = plugin.capabilities - frozenset(without)
        self.extensions = plugin.extensions
        self.magic = plugin.magic

    def reader(self) -> FormatReader[B]:
        return _WrappedReader(self._plugin.reader(), self._wrap)

    def writer(self) -> FormatWriter[B]:
        return self._plugin.writer()


class _WrappedReader(Generic[B]):
    def __init__(self, reader: FormatReader[B], wrap: Callable[[FormatFile[B]], FormatFile[B]]) -> None:
        self._reader = reader
        self._wrap = wrap

    def open(self, source: ByteSource, options: OpenOptions) -> FormatFile[B]:
        return self._wrap(self._reader.open(source, options))
