"""The life of a file that is written: it appears whole when it is closed, or not at all."""

from __future__ import annotations

import hashlib
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, NestedField

from formatkit.contract import FormatFileWriter, WriteOptions
from formatkit.errors import FileAlreadyExistsError, FormatkitError, StorageError
from formatkit.io import MemorySink
from formatkit.io.memory import MemorySinkStream
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS, ONE_ROW, DataSet
from formatkit.tck.kits import FormatKit, Stored

_OTHER = DataSet("others", ONE_ROW.schema, [{1: number, 2: "new", 3: None} for number in range(7)])
_NOISE = Schema(NestedField(1, "noise", BinaryType()))


@check("W3", "J04", layer=Layer.FORMAT)
def a_file_that_may_be_replaced_is_replaced(kit: FormatKit[Any]) -> None:
    sink = MemorySink()
    for data in (ONE_ROW, _OTHER):
        writer = _opened(kit, sink, data, overwrite=True)
        result = writer.close()
    expect.that(result is not None and sink.data is not None, "there is no file after the second write")
    found = kit.everything(Stored(sink.data or b"", result, _OTHER.schema, _OTHER.rows))  # type: ignore[arg-type]
    expect.equal_rows(found, _OTHER.rows, "rows of the file that replaced another")


@check("K1", "J05", layer=Layer.FORMAT)
def a_file_that_may_not_be_replaced_stays(kit: FormatKit[Any]) -> None:
    sink = MemorySink()
    _opened(kit, sink, ONE_ROW).close()
    before = sink.data
    with expect.raises(FileAlreadyExistsError, when="writing to a location that is taken"):
        _opened(kit, sink, _OTHER).close()
    expect.that(sink.data == before, "the file that was there is not what it was")


@check("W3", "X38", layer=Layer.FORMAT)
def closing_twice_returns_the_same(kit: FormatKit[Any]) -> None:
    sink = MemorySink()
    writer = _opened(kit, sink, ONE_ROW)
    first, data = writer.close(), sink.data
    expect.equal(writer.close(), first, "what the second close returns")
    expect.that(sink.data == data, "the second close changed the file")


@check("W3", "X38", layer=Layer.FORMAT)
def a_file_without_rows_is_not_written(kit: FormatKit[Any]) -> None:
    empty = kit.batches.batch(ONE_ROW.schema, [])
    for batches in ([], [empty], [empty, empty]):
        sink = MemorySink()
        with kit.plugin.writer().open(sink, WriteOptions(schema=ONE_ROW.schema)) as writer:
            for batch in batches:
                writer.write(batch)
            expect.equal(writer.close(), None, f"what close returns after {len(batches)} empty batches")
        expect.that(sink.data is None, f"a file is left after {len(batches)} empty batches")


@check("W1", "X38", layer=Layer.FORMAT)
def batches_without_rows_between_others_leave_no_trace(kit: FormatKit[Any]) -> None:
    sink = MemorySink()
    schema, rows = MANY_CHUNKS.schema, MANY_CHUNKS.rows[:9]
    with kit.plugin.writer().open(sink, WriteOptions(schema=schema, properties=kit.small_chunks)) as writer:
        for part in ([], rows[:4], [], [], rows[4:], []):
            writer.write(kit.batches.batch(schema, part))
        result = writer.close()
    if result is None or sink.data is None:
        raise expect.CheckFailedError("rows were written, but there is no file")
    expect.equal(result.row_count, len(rows), "row count")
    expect.equal_rows(kit.everything(Stored(sink.data, result, schema, rows)), rows)


@check("W4", "X38", layer=Layer.FORMAT)
def an_aborted_file_leaves_nothing_behind(kit: FormatKit[Any]) -> None:
    sink = MemorySink()
    writer = _opened(kit, sink, MANY_CHUNKS)
    writer.abort()
    expect.that(sink.data is None, "a file is left after abort")
    with expect.raises(FormatkitError, when="closing a file that was aborted"):
        writer.close()
    expect.that(sink.data is None, "a file is left after abort and close")


@check("W4", "X38", layer=Layer.FORMAT)
def an_error_inside_the_block_leaves_nothing_behind(kit: FormatKit[Any]) -> None:
    sink = MemorySink()
    with expect.raises(_InterruptedError, when="an error in the midst of writing"), _opened(kit, sink, MANY_CHUNKS):
        _interrupt()
    expect.that(sink.data is None, "a file is left after an error inside the with block")


@check("W4", "X38", layer=Layer.FORMAT)
def a_storage_that_fails_while_writing_is_reported(kit: FormatKit[Any]) -> None:
    sink = _FullSink(most_bytes=4096)
    options = WriteOptions(schema=_NOISE, properties=kit.small_chunks)
    with (
        expect.raises(StorageError, when="writing to a storage that is full"),
        kit.plugin.writer().open(sink, options) as writer,
    ):
        for number in range(8):
            writer.write(kit.batches.batch(_NOISE, [{1: _noise(number, 4096)}]))
    expect.that(sink.data is None, "a file is left after the storage failed")


@check("W3", layer=Layer.FORMAT)
def leaving_the_block_publishes_the_file(kit: FormatKit[Any]) -> None:
    sink = MemorySink()
    with _opened(kit, sink, ONE_ROW):
        expect.that(sink.data is None, "the file is there before it is closed")
    expect.that(sink.data is not None, "there is no file after the with block")


@check("W5", "X06", layer=Layer.FORMAT)
def the_size_is_that_of_the_stored_file(kit: FormatKit[Any]) -> None:
    for data in (ONE_ROW, MANY_CHUNKS):
        stored = kit.write(data.schema, data.rows)
        expect.equal(stored.result.size_bytes, len(stored.data), "size_bytes")


@check("W5", layer=Layer.FORMAT)
def bytes_written_tells_about_how_long_the_file_is(kit: FormatKit[Any]) -> None:
    """For bytes that no codec makes shorter, bytes_written is never below a quarter of them nor above four times."""
    length = 40_000
    with kit.plugin.writer().open(MemorySink(), WriteOptions(schema=_NOISE)) as writer:
        for number in range(20):
            writer.write(kit.batches.batch(_NOISE, [{1: _noise(number, length)}]))
            given, told = (number + 1) * length, writer.bytes_written()
            expect.that(given / 4 <= told <= given * 4, f"bytes_written is {told} after {given} bytes")


def _opened(kit: FormatKit[Any], sink: MemorySink, data: DataSet, *, overwrite: bool = False) -> FormatFileWriter[Any]:
    """A writer to which the rows were written, in batches of three."""
    options = WriteOptions(schema=data.schema, properties=kit.small_chunks, overwrite=overwrite)
    writer = kit.plugin.writer().open(sink, options)
    for start in range(0, len(data.rows), 3):
        writer.write(kit.batches.batch(data.schema, data.rows[start : start + 3]))
    return writer


class _InterruptedError(Exception):
    """What has nothing to do with the plugin."""


def _interrupt() -> None:
    raise _InterruptedError


def _noise(number: int, length: int) -> bytes:
    """Bytes that no codec makes shorter."""
    return hashlib.shake_128(number.to_bytes(4)).digest(length)


class _FullSink(MemorySink):
    """A storage with room for so many bytes."""

    def __init__(self, *, most_bytes: int) -> None:
        super().__init__(location="memory:full")
        self.most_bytes = most_bytes

    def create(self, *, overwrite: bool = False) -> MemorySinkStream:
        return _FullStream(self)


class _FullStream(MemorySinkStream):
    def __init__(self, sink: _FullSink) -> None:
        super().__init__(sink)
        self._most_bytes = sink.most_bytes

    def write(self, data: bytes | memoryview, /) -> int:
        if self.tell() + len(data) > self._most_bytes:
            raise StorageError("cannot write memory:full: no space left", location="memory:full")
        return super().write(data)
