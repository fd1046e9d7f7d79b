"""How to make a faulty reader: a good plugin, and one thing between it and whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema

from formatkit.contract import (
    BatchStream,
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
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.tck import Subject, naive
from formatkit.tck.rows import from_arrow

__all__ = [
    "FaultyFile",
    "answering",
    "asked",
    "changing",
    "describing",
    "misreading",
    "opening",
    "whole",
    "yielding",
]

File = FormatFile[pa.RecordBatch]
Result = ReadResult[pa.RecordBatch]
Open = Callable[[ByteSource, OpenOptions], File]
Read = Callable[[File, ReadOptions], Result]


@dataclass
class FaultyFile:
    """A good file whose reads go through a function; subclasses may say other things about it."""

    good: File
    misread: Read

    def read(self, options: ReadOptions) -> Result:
        return self.misread(self.good, options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.good, name)


@dataclass(frozen=True)
class _Reader:
    open: Open


class _Plugin:
    """A good plugin that opens files by a function, and declares other things."""

    def __init__(self, good: FormatPlugin[Any], open_file: Open, capabilities: frozenset[Capability]) -> None:
        self._good = good
        self._open = open_file
        self.file_format = good.file_format
        self.batch_type = good.batch_type
        self.capabilities = capabilities
        self.extensions = good.extensions
        self.magic = good.magic

    def reader(self) -> FormatReader[pa.RecordBatch]:
        return _Reader(self._open)

    def writer(self) -> FormatWriter[pa.RecordBatch]:
        return self._good.writer()


def opening(
    open_file: Open,
    *,
    good: Any = None,
    declares: Collection[Capability] = (),
    hides: Collection[Capability] = (),
) -> Subject[Any]:
    """A plugin that opens files by the function."""
    plugin: Any = good or ArrowFormat()
    capabilities = (plugin.capabilities | frozenset(declares)) - frozenset(hides)
    return Subject.of(_Plugin(plugin, open_file, capabilities))


def misreading(read: Read, *, good: Any = None, **facts: Any) -> Subject[Any]:
    """A plugin whose files are read by the function."""
    plugin: Any = good or ArrowFormat()

    def open_file(source: ByteSource, options: OpenOptions) -> File:
        return cast("File", FaultyFile(plugin.reader().open(source, options), read))

    return opening(open_file, good=plugin, **facts)


def describing(*, good: Any = None, hides: Collection[Capability] = (), **says: Any) -> Subject[Any]:
    """A plugin whose files say other things about themselves: functions of what they would say, by attribute."""
    plugin: Any = good or ArrowFormat()

    def open_file(source: ByteSource, options: OpenOptions) -> File:
        file = plugin.reader().open(source, options)
        found = FaultyFile(file, lambda good_file, wanted: good_file.read(wanted))
        for name, change in says.items():
            setattr(found, name, change(getattr(file, name)))
        return cast("File", found)

    return opening(open_file, good=plugin, hides=hides)


def changing(change: Callable[[ReadOptions], ReadOptions], **facts: Any) -> Subject[Any]:
    """A plugin that hears another question than it was asked, but returns what is left of the one it was asked."""
    return misreading(lambda file, options: replace(file.read(change(options)), residual=options.predicate), **facts)


def yielding(
    change: Callable[[Iterator[pa.RecordBatch], ReadOptions], Iterable[pa.RecordBatch]], **facts: Any
) -> Subject[Any]:
    """A plugin whose batches go through a function."""

    def read(file: File, options: ReadOptions) -> Result:
        result = file.read(options)
        return replace(result, batches=BatchStream(iter(change(result.batches, options)), result.batches.close))

    return misreading(read, **facts)


def answering(
    keep: Callable[[naive.Row, list[naive.Row], ReadOptions], bool], *, exactly: bool = False, **facts: Any
) -> Subject[Any]:
    """A plugin that leaves rows out.

    Args:
        keep: Is given a row, all rows of its batch, and what was asked for.
        exactly: Whether it claims that what it returns is the answer; else it returns the whole predicate.
        facts: As for `opening`.
    """

    def kept(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
        rows = from_arrow(options.projection, batch)
        return batch.filter(pa.array([keep(row, rows, options) for row in rows], pa.bool_()))

    def read(file: File, options: ReadOptions) -> Result:
        result = file.read(replace(options, predicate=AlwaysTrue()))
        batches = (kept(batch, options) for batch in result.batches)
        residual = AlwaysTrue() if exactly else options.predicate
        return replace(result, batches=BatchStream(batches, result.batches.close), residual=residual)

    return misreading(read, **facts)


def asked(options: ReadOptions) -> bool:
    """Whether rows were asked for by a predicate."""
    return not isinstance(options.predicate, AlwaysTrue)


def whole(schema: Schema, wanted: Schema) -> Schema:
    """The top-level columns of a file that a projection names, with everything that is inside them."""
    names = {field.name for field in wanted.fields}
    return Schema(*(field for field in schema.fields if field.name in names))
