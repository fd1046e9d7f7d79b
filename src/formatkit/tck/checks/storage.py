"""Where bytes come from and go to: the promises that formats build on, and the formats on top of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from formatkit.contract import ByteRange, FormatFileWriter, ReadOptions, WriteOptions
from formatkit.errors import CorruptFileError, FileAlreadyExistsError, FileMissingError, StorageError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS, ONE_ROW, DataSet
from formatkit.tck.kits import FormatKit
from formatkit.tck.naive import Row
from formatkit.tck.storages import Storage

_NAME = "file"


@check("S1", layer=Layer.FORMAT)
def threads_read_one_source_at_once(kit: FormatKit[Any]) -> None:
    for storage in _storages(kit):
        content = _stored(kit, storage)
        ranges = [(start, min(97, len(content) - start)) for start in range(0, len(content), 97)] * 8
        with closing(storage.source(_NAME)) as source, ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda one: (source.size(), bytes(source.read(*one))), ranges))
        expected = [(len(content), content[start : start + length]) for start, length in ranges]
        expect.that(found == expected, f"{_kind(storage)}: threads that read at once got bytes of other places")


@check("S2", layer=Layer.FORMAT)
def reads_outside_of_a_file_are_refused(kit: FormatKit[Any]) -> None:
    for storage in _storages(kit):
        content = _stored(kit, storage)
        size = len(content)
        with closing(storage.source(_NAME)) as source:
            for offset, length in ((0, size), (size, 0), (size - 1, 1), (3, 4)):
                found = bytes(source.read(offset, length))
                expect.that(found == content[offset : offset + length], f"{_kind(storage)}: bytes are not the file's")
            for offset, length in ((0, size + 1), (size, 1), (-1, 1), (1, -1), (size + 5, 0)):
                with expect.raises(CorruptFileError, when=f"{_kind(storage)}: reading {length} bytes from {offset}"):
                    source.read(offset, length)


@check("S3", layer=Layer.FORMAT)
def a_file_that_is_missing_is_named(kit: FormatKit[Any]) -> None:
    attempts: tuple[tuple[str, Callable[[Any], object]], ...] = (
        ("asking for the size", lambda source: source.size()),
        ("reading", lambda source: source.read(0, 1)),
        ("opening", lambda source: source.open()),
    )
    for storage in _storages(kit):
        for what, attempt in attempts:
            try:
                with closing(storage.source("missing")) as source:
                    attempt(source)
            except FileMissingError as error:
                expect.that("missing" in str(error), f"{_kind(storage)}: the error does not name the file: {error}")
            else:
                raise expect.CheckFailedError(f"{_kind(storage)}: {what} of a file that is not there does not fail")


@check("S4", layer=Layer.FORMAT)
def prefetching_is_mere_advice(kit: FormatKit[Any]) -> None:
    for storage in _storages(kit):
        content = _stored(kit, storage)
        with closing(storage.source(_NAME)) as source:
            source.prefetch([ByteRange(0, 10), ByteRange(len(content) - 1, 500), ByteRange(len(content) + 9, 1)])
            expect.that(
                bytes(source.read(2, 7)) == content[2:9], f"{_kind(storage)}: bytes after prefetching are wrong"
            )
            source.prefetch([])


@check("S5", layer=Layer.FORMAT)
def a_closed_source_holds_nothing_open(kit: FormatKit[Any]) -> None:
    for storage in _storages(kit):
        _stored(kit, storage)
        source = storage.source(_NAME)
        source.read(0, 1)
        file = source.open()
        source.close()
        source.close()
        expect.that(file.closed, f"{_kind(storage)}: a file object is open after its source was closed")
        with expect.raises(StorageError, ValueError, when=f"{_kind(storage)}: reading from a source that was closed"):
            source.read(0, 1)


@check("S2", "W1", layer=Layer.FORMAT)
def files_are_the_same_in_every_storage(kit: FormatKit[Any]) -> None:
    for storage in _storages(kit):
        _written(kit, storage, MANY_CHUNKS).close()
        expect.equal_rows(_rows(kit, storage), MANY_CHUNKS.rows, f"rows of {_kind(storage)}")


@check("K1", "J05", layer=Layer.FORMAT)
def a_location_that_is_taken_stays_as_it_is(kit: FormatKit[Any]) -> None:
    for storage in _storages(kit):
        _written(kit, storage, MANY_CHUNKS).close()
        with expect.raises(FileAlreadyExistsError, when=f"{_kind(storage)}: writing where a file is"):
            _written(kit, storage, ONE_ROW).close()
        expect.equal_rows(_rows(kit, storage), MANY_CHUNKS.rows, f"{_kind(storage)}: rows of the file that was there")


@check("K2", layer=Layer.FORMAT)
def a_file_is_not_seen_before_it_is_complete(kit: FormatKit[Any]) -> None:
    for storage in _storages(kit):
        with _written(kit, storage, MANY_CHUNKS) as writer:
            with expect.raises(FileMissingError, when=f"{_kind(storage)}: looking for a file that is not closed"):
                storage.source(_NAME).size()
            writer.close()
        expect.equal_rows(_rows(kit, storage), MANY_CHUNKS.rows, f"{_kind(storage)}: rows of the complete file")


@check("K3", "X38", layer=Layer.FORMAT)
def aborting_leaves_the_location_as_it_was(kit: FormatKit[Any]) -> None:
    for storage in _storages(kit):
        _written(kit, storage, MANY_CHUNKS).abort()
        with expect.raises(FileMissingError, when=f"{_kind(storage)}: looking for a file that was aborted"):
            storage.source(_NAME).size()
        _written(kit, storage, MANY_CHUNKS).close()
        _written(kit, storage, ONE_ROW, overwrite=True).abort()
        expect.equal_rows(_rows(kit, storage), MANY_CHUNKS.rows, f"{_kind(storage)}: rows of the file that was there")


def _storages(kit: FormatKit[Any]) -> Iterator[Storage]:
    for make in kit.storages:
        with TemporaryDirectory(prefix="formatkit-tck-") as folder:
            yield make(Path(folder))


def _kind(storage: Storage) -> str:
    return type(storage).__name__


def _stored(kit: FormatKit[Any], storage: Storage) -> bytes:
    """Put a file of the format into the storage, without its writer."""
    data = kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows).data
    stream = storage.sink(_NAME).create()
    stream.write(data)
    stream.close()
    return data


def _written(kit: FormatKit[Any], storage: Storage, data: DataSet, *, overwrite: bool = False) -> FormatFileWriter[Any]:
    options = WriteOptions(schema=data.schema, properties=kit.small_chunks, overwrite=overwrite)
    writer = kit.plugin.writer().open(storage.sink(_NAME), options)
    for start in range(0, len(data.rows), 3):
        writer.write(kit.batches.batch(data.schema, data.rows[start : start + 3]))
    return writer


def _rows(kit: FormatKit[Any], storage: Storage) -> list[Row]:
    with kit.opened(storage.source(_NAME)) as file:
        return kit.read(file, ReadOptions(projection=file.schema, batch_rows=100), MANY_CHUNKS.schema)
