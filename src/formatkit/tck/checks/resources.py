"""Reads that end early, fail, or meet bytes that are no file: everything is released, and nothing is silent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from formatkit.contract import Capability, OpenOptions, ReadOptions
from formatkit.errors import CorruptFileError, FormatkitError, StorageError
from formatkit.tck import expect, naive
from formatkit.tck.check import Layer, check
from formatkit.tck.checks.projection import LARGE
from formatkit.tck.checks.splits import REFUSAL, tiles
from formatkit.tck.datasets import MANY_CHUNKS
from formatkit.tck.kits import FormatKit, Stored
from formatkit.tck.sources import CountingSource, FailingSource, SlowSource

THREADS = 4


@check("R8", "X85", layer=Layer.FORMAT)
def a_read_that_is_closed_early_releases_its_handles(kit: FormatKit[Any]) -> None:
    source = CountingSource(_stored(kit).data)
    file = kit.plugin.reader().open(source, OpenOptions())
    held = source.open_handles
    for batches in (0, 1, 2):
        stream = file.read(ReadOptions(projection=file.schema, batch_rows=2)).batches
        for _ in range(batches):
            next(stream)
        stream.close()
        stream.close()
        expect.that(source.open_handles <= held, f"a read that was closed after {batches} batches holds a handle")
    file.close()
    file.close()
    expect.equal(source.open_handles, 0, "handles after the file was closed")


@check("R8", "X85", layer=Layer.FORMAT)
def closing_a_file_leaves_its_source_to_the_caller(kit: FormatKit[Any]) -> None:
    stored = _stored(kit)
    source = CountingSource(stored.data)
    for _ in range(2):
        file = kit.plugin.reader().open(source, OpenOptions())
        expect.equal_rows(kit.read(file, ReadOptions(projection=file.schema), stored.schema), stored.rows)
        file.close()
        expect.that(not source.closed, "closing the file closed the source, which is the caller's")


@check("R8", "X85", layer=Layer.FORMAT)
def a_storage_that_fails_is_reported_and_released(kit: FormatKit[Any]) -> None:
    # So large that no reader has all of it before the first batch.
    stored = kit.write(LARGE.schema, LARGE.rows)
    counted = CountingSource(stored.data)
    _read(kit, counted)
    reads = len(counted.reads)
    for after in sorted({reads * part // 6 for part in range(6)}):
        source = FailingSource(stored.data, after=after)
        with expect.raises(StorageError, when=f"the storage fails after {after} of {reads} reads"):
            _read(kit, source)
        expect.equal(source.open_handles, 0, f"handles after the storage failed after {after} reads")


@check("R8", "X85", layer=Layer.FORMAT)
def a_truncated_file_is_corrupt_and_never_shorter(kit: FormatKit[Any]) -> None:
    stored = _stored(kit)
    length = len(stored.data)
    cuts = {length - 1, length - 5, *(length * part // 12 for part in range(12))}
    # Where chunks stand alone, a file that ends between two of them is whole.
    for cut in sorted(cuts - set(stored.result.split_offsets or ())):
        source = CountingSource(stored.data[:cut])
        try:
            found = len(_read(kit, source))
        except CorruptFileError as error:
            expect.that(source.location in str(error), f"the error does not name the file: {error}")
        else:
            expect.equal(found, len(stored.rows), f"rows of the first {cut} of {length} bytes")
        expect.equal(source.open_handles, 0, f"handles after {cut} of {length} bytes were read")


@check("R8", "X85", layer=Layer.FORMAT)
def a_file_whose_middle_is_overwritten_loses_no_row_silently(kit: FormatKit[Any]) -> None:
    stored = _stored(kit)
    start, end = len(stored.data) // 3, len(stored.data) * 2 // 3
    for byte in (b"\x00", b"\xff", b"\x5a"):
        source = CountingSource(stored.data[:start] + byte * (end - start) + stored.data[end:])
        with suppress(FormatkitError):
            found = len(_read(kit, source))
            expect.equal(found, len(stored.rows), f"rows of a file whose middle is {byte!r}")
        expect.equal(source.open_handles, 0, "handles after a damaged file was read")


@check("R8", "X85", layer=Layer.FORMAT)
def bytes_that_are_no_file_are_corrupt_and_named(kit: FormatKit[Any]) -> None:
    for data in (b"", b"\x00", b"no file of any format, I am afraid " * 50, kit.plugin.magic, kit.plugin.magic * 9):
        source = CountingSource(data, location="memory:no-file")
        with expect.raises(CorruptFileError, when=f"opening {data[:20]!r}", naming=source.location):
            kit.plugin.reader().open(source, OpenOptions())
        expect.equal(source.open_handles, 0, "handles after the file was refused")


@check("R8", layer=Layer.FORMAT)
def reads_of_one_file_do_not_disturb_each_other(kit: FormatKit[Any]) -> None:
    stored = _stored(kit)
    with kit.opened(stored.data) as file:
        options = ReadOptions(projection=file.schema, batch_rows=2)
        with file.read(options).batches as one, file.read(options).batches as other:
            pairs = list(zip(one, other, strict=True))
    for batches in zip(*pairs, strict=True):
        found = [row for batch in batches for row in kit.batches.rows(stored.schema, batch)]
        expect.equal_rows(found, stored.rows, "rows of one of two reads")


@check("R8", layer=Layer.FORMAT)
def one_reader_serves_several_threads(kit: FormatKit[Any]) -> None:
    parts = [MANY_CHUNKS.rows[start : start + 12] for start in range(0, 48, 12)]
    files = [kit.write(MANY_CHUNKS.schema, part) for part in parts]
    reader = kit.plugin.reader()

    def read(stored: Stored) -> list[naive.Row]:
        source = SlowSource(stored.data, seconds=0.0005)
        file = reader.open(source, OpenOptions())
        try:
            return kit.read(file, ReadOptions(projection=file.schema, batch_rows=7), stored.schema)
        finally:
            file.close()
            source.close()

    with ThreadPoolExecutor(len(files)) as threads:
        for stored, found in zip(files, threads.map(read, files), strict=True):
            expect.equal_rows(found, stored.rows, "rows of one of several files")


@check("R5", "R8", layer=Layer.FORMAT, when=Capability.SPLIT, twin=REFUSAL)
def splits_of_one_open_file_are_read_in_several_threads(kit: FormatKit[Any]) -> None:
    stored = _stored(kit)
    with kit.opened(SlowSource(stored.data, seconds=0.0005)) as file:
        options = [
            ReadOptions(projection=file.schema, split=split)
            for split in tiles(len(stored.data), len(stored.data) // (2 * THREADS))
        ]
        with ThreadPoolExecutor(THREADS) as threads:
            parts = list(threads.map(lambda wanted: kit.read(file, wanted, stored.schema), options))
    expect.equal_rows([row for part in parts for row in part], stored.rows, "rows of all splits")


def _stored(kit: FormatKit[Any]) -> Stored:
    return kit.write(MANY_CHUNKS.schema, MANY_CHUNKS.rows)


def _read(kit: FormatKit[Any], source: CountingSource) -> list[naive.Row]:
    """Open a file and read it; whatever fails, the file is closed, but not the source."""
    file = kit.plugin.reader().open(source, OpenOptions())
    try:
        return kit.read(file, ReadOptions(projection=file.schema, batch_rows=7))
    finally:
        file.close()
