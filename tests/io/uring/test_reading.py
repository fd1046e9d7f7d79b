"""Reads through the ring return the file's bytes, whatever the ranges look like."""

from __future__ import annotations

import ctypes
import errno
import gc
import itertools
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from formatkit.contract import ByteRange
from formatkit.errors import ConfigurationError, CorruptFileError, FileMissingError, StorageError
from formatkit.io.uring import UringFile, UringReader
from formatkit.io.uring.ring import Ring

Ranges = Callable[[int], list[ByteRange]]


class StingyRing(Ring):
    """Never reads more than 1,000 bytes at a time, as a kernel may."""

    def push(
        self,
        tokens: NDArray[np.uint64],
        descriptor: int,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> None:
        super().push(tokens, descriptor, addresses, np.minimum(lengths, 1000), offsets)


def rooms_for(ranges: list[ByteRange]) -> list[tuple[ByteRange, memoryview]]:
    return [(span, memoryview(pa.allocate_buffer(span.length))) for span in ranges]


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_ranges_are_read_into_the_memory_of_the_caller(
    reader: UringReader, descriptor: int, content: bytes, some_ranges: Ranges, count: int
) -> None:
    reads = rooms_for(some_ranges(count))
    assert reader.submit(descriptor, reads, location="data").result(30) is None
    assert all(bytes(room) == content[offset : offset + length] for (offset, length), room in reads)


def test_ranges_are_read_one_behind_the_other(
    reader: UringReader, path: Path, content: bytes, some_ranges: Ranges
) -> None:
    ranges = some_ranges(400)
    room = bytearray(sum(length for _, length in ranges))
    with UringFile(path) as file:
        assert reader.submit_packed(file, ranges, memoryview(room), location=str(path)).result(30) is None
    assert room == b"".join(content[at : at + length] for at, length in ranges)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_ranges_are_read_into_new_buffers(
    path: Path, content: bytes, some_ranges: Ranges, count: int, direct: bool
) -> None:
    ranges = some_ranges(count)
    with UringReader(direct=direct) as reader:
        buffers = reader.read_ranges(path, ranges)
    assert [buffer.to_pybytes() for buffer in buffers] == [content[at : at + length] for at, length in ranges]


@pytest.mark.parametrize("direct", [False, True])
def test_a_file_that_ends_inside_a_block_is_read_to_its_last_byte(tmp_path: Path, content: bytes, direct: bool) -> None:
    path = tmp_path / "odd.bin"
    path.write_bytes(content[:10_001])
    with UringReader(direct=direct) as reader:
        whole, last, nothing = reader.read_ranges(
            path, [ByteRange(0, 10_001), ByteRange(10_000, 1), ByteRange(10_001, 0)]
        )
    assert (whole.to_pybytes(), last.to_pybytes(), nothing.size) == (content[:10_001], content[10_000:10_001], 0)


def _pages_in_memory(path: Path) -> int:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        states = np.zeros(-(-len(view) // mmap.PAGESIZE), np.uint8)
        place, length = ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(view))
        assert not ctypes.CDLL(None).mincore(place, length, ctypes.c_void_p(states.ctypes.data))
        del view
        return int((states & 1).sum())


def test_direct_reads_do_not_fill_the_page_cache(path: Path, content: bytes) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        # The kernel may keep pages that have just been written for another while.
        for _ in range(3000):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if not _pages_in_memory(path):
                break
            time.sleep(0.01)
    with UringFile(path, direct=True) as direct, UringReader() as reader:
        if not direct.direct:
            pytest.skip("this file system has no direct reads")
        (buffer,) = reader.fetch(direct, [ByteRange(5000, 70_000)]).result(30)
        assert buffer.to_pybytes() == content[5000:75_000]
    assert _pages_in_memory(path) == 0


def test_short_reads_are_continued_until_the_range_is_full(path: Path, content: bytes, some_ranges: Ranges) -> None:
    ranges = some_ranges(50)
    with UringReader(entries=16, ring_type=StingyRing) as reader:
        buffers = reader.read_ranges(path, ranges)
    assert [buffer.to_pybytes() for buffer in buffers] == [content[at : at + length] for at, length in ranges]


def test_a_range_of_more_than_two_gibibytes_is_read_whole() -> None:
    length = (2 << 30) + 5
    parts: list[tuple[int, int, int]] = []

    class Recording(Ring):
        def push(
            self,
            tokens: NDArray[np.uint64],
            descriptor: int,
            addresses: NDArray[np.uint64],
            lengths: NDArray[np.int64],
            offsets: NDArray[np.int64],
        ) -> None:
            if descriptor == file:
                parts.extend(zip(offsets.tolist(), addresses.tolist(), lengths.tolist(), strict=True))
            super().push(tokens, descriptor, addresses, lengths, offsets)

    file = os.memfd_create("sparse")
    os.pwrite(file, b"last!", length - 5)
    with repeated_memory(length) as room, UringReader(ring_type=Recording) as reader:
        reader.submit(file, [(ByteRange(0, length), room)], location="sparse").result(60)
        assert bytes(room[-6:]) == b"\0last!"
    os.close(file)
    parts.sort()
    assert parts[0][0] == 0
    assert all(one[0] + one[2] == other[0] for one, other in itertools.pairwise(parts))
    assert parts[-1][0] + parts[-1][2] == length
    assert len({address - offset for offset, address, _ in parts}) == 1


@contextmanager
def repeated_memory(length: int) -> Iterator[memoryview]:
    """A stretch of addresses behind which there is little memory: the same 64 MiB over and over."""
    step = 64 << 20
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    whole = mmap.mmap(-1, length)
    view = memoryview(whole)
    start = ctypes.addressof(ctypes.c_char.from_buffer(view))
    memory = os.memfd_create("memory")
    os.truncate(memory, step)
    shared_fixed = mmap.MAP_SHARED | 0x10
    for at in range(0, length - step + 1, step):
        place = ctypes.c_void_p(start + at)
        assert libc.mmap(place, ctypes.c_size_t(step), 3, shared_fixed, memory, ctypes.c_long(0)) == start + at
    os.close(memory)
    yield view
    gc.collect()
    view.release()
    whole.close()


def test_many_files_are_read_at_once(tmp_path: Path, reader: UringReader) -> None:
    answers = []
    for number in range(200):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(number.to_bytes(2, "big") * 3000)
        with UringFile(path) as file:
            answers.append(reader.fetch(file, [ByteRange(0, 2), ByteRange(4000, 2000)]))
    for number, answer in enumerate(answers):
        head, tail = answer.result(30)
        assert head.to_pybytes() + tail.to_pybytes() == number.to_bytes(2, "big") * 1001


def test_empty_ranges_read_nothing_and_may_lie_anywhere_in_the_file(path: Path, content: bytes) -> None:
    with UringReader() as reader:
        buffers = reader.read_ranges(path, [ByteRange(0, 0), ByteRange(3, 4), ByteRange(len(content), 0)])
        assert [buffer.to_pybytes() for buffer in buffers] == [b"", content[3:7], b""]
        assert [buffer.size for buffer in reader.read_ranges(path, [ByteRange(9, 0)])] == [0]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("span", [(-1, 4), (0, -1), (1 << 20, 1), ((1 << 20) - 3, 4), (1 << 62, 1 << 62)])
def test_a_range_outside_the_file_is_refused(path: Path, span: tuple[int, int], direct: bool) -> None:
    with UringReader(direct=direct) as reader, pytest.raises(CorruptFileError, match=str(path)):
        reader.read_ranges(path, [ByteRange(0, 10), ByteRange(*span)])


@pytest.mark.parametrize("span", [(1 << 20, 1), ((1 << 20) - 3, 4), (1 << 40, 8)])
def test_the_end_of_the_file_inside_a_range_is_an_error(
    reader: UringReader, descriptor: int, span: tuple[int, int]
) -> None:
    answer = reader.submit(descriptor, rooms_for([ByteRange(0, 10), ByteRange(*span)]), location="some/file")
    with pytest.raises(
        CorruptFileError, match=f"some/file .* {span[1]} bytes from offset {span[0]} .* {1 << 20} bytes"
    ):
        answer.result(30)


@pytest.mark.parametrize("span", [(-1, 4), (0, -4), ((1 << 63) - 2, 4)])
def test_an_impossible_range_is_refused_before_it_is_submitted(
    reader: UringReader, descriptor: int, span: tuple[int, int]
) -> None:
    with pytest.raises(CorruptFileError, match="some/file"):
        reader.submit(descriptor, [(ByteRange(*span), memoryview(bytearray(4)))], location="some/file")
    with pytest.raises(CorruptFileError, match="some/file"):
        reader.submit_packed(descriptor, [ByteRange(*span)], memoryview(bytearray(4)), location="some/file")


@pytest.mark.parametrize("room", [bytearray(3), bytearray(5), bytes(4)])
def test_memory_that_cannot_be_filled_is_refused(reader: UringReader, descriptor: int, room: bytes | bytearray) -> None:
    with pytest.raises(ConfigurationError, match=f"{len(room)} bytes was given for a range of 4"):
        reader.submit(descriptor, [(ByteRange(0, 4), memoryview(room))], location="data")
    with pytest.raises(ConfigurationError, match=f"{len(room)} bytes was given for a range of 4"):
        reader.submit_packed(descriptor, [ByteRange(0, 1), ByteRange(9, 3)], memoryview(room), location="data")


def test_a_missing_file_and_a_folder_are_storage_errors(reader: UringReader, tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match="nothing-here"):
        reader.read_ranges(tmp_path / "nothing-here", [ByteRange(0, 1)])
    with pytest.raises(StorageError, match="it is a directory"):
        reader.read_ranges(tmp_path, [ByteRange(0, 1)])


def test_a_closed_descriptor_is_a_storage_error_that_names_the_range(reader: UringReader) -> None:
    with pytest.raises(StorageError, match="cannot read 4 bytes from offset 8 of data: bad file descriptor") as caught:
        reader.submit(9999, rooms_for([ByteRange(8, 4)]), location="data").result(30)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EBADF
    assert not caught.value.retryable


def test_a_file_may_be_closed_while_its_reads_are_queued(path: Path, content: bytes) -> None:
    with UringReader(entries=2) as reader:
        file = UringFile(path)
        answers = [reader.fetch(file, [ByteRange(at, 1000)]) for at in range(0, 100_000, 1000)]
        file.close()
        assert b"".join(answer.result(30)[0].to_pybytes() for answer in answers) == content[:100_000]
        with pytest.raises(StorageError, match="closed"):
            reader.fetch(file, [ByteRange(0, 1)])


def test_buffers_outlive_the_reader(path: Path, content: bytes) -> None:
    with UringReader() as reader:
        buffers = reader.read_ranges(path, [ByteRange(0, 5000), ByteRange(9000, 10)])
    assert [buffer.to_pybytes() for buffer in buffers] == [content[:5000], content[9000:9010]]
