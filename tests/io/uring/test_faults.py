"""What goes wrong: every caller hears of it, nobody waits for ever, and nothing is left behind."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from formatkit.contract import ByteRange
from formatkit.errors import CorruptFileError, StorageError
from formatkit.io.uring import UringFile, UringReader
from formatkit.io.uring.layout import request_into
from formatkit.io.uring.ring import Completions, Ring

Ranges = Callable[[int], list[ByteRange]]


def room_for(span: ByteRange) -> tuple[ByteRange, memoryview]:
    return span, memoryview(pa.allocate_buffer(span.length))


def hold(reader: UringReader, pipe: tuple[int, int]) -> Future[None]:
    """Keep a read in flight until something is written into the pipe."""
    held = reader.submit(pipe[0], [room_for(ByteRange(0, 1))], location="pipe")
    while not held.running():
        time.sleep(0.001)
    return held


class TamperedRing(Ring):
    """A ring whose completions a test may change on their way."""

    tamper: ClassVar[Callable[[Completions], Completions]]

    def drain(self) -> Completions:
        return type(self).tamper(super().drain())


def tampered(tamper: Callable[[Completions], Completions]) -> type[Ring]:
    return type("Tampered", (TamperedRing,), {"tamper": staticmethod(tamper)})


def is_read(tokens: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which completions are those of reads, not the one that wakes the thread up."""
    return np.asarray(tokens != np.uint64((1 << 64) - 1))


@pytest.mark.parametrize("direct", [False, True])
def test_a_file_that_is_truncated_while_it_waits_is_reported(path: Path, pipe: tuple[int, int], direct: bool) -> None:
    with UringReader(entries=2) as reader, UringFile(path, direct=direct) as file:
        held = hold(reader, pipe)
        answer = reader.fetch(file, [ByteRange(0, 5000), ByteRange(900_000, 5000)])
        os.truncate(path, 902_000)
        os.write(pipe[1], b"x")
        with pytest.raises(CorruptFileError, match=f"{path} .* 5000 bytes from offset 900000 .* 902000 bytes"):
            answer.result(30)
        assert held.result(30) is None


def test_a_file_that_is_truncated_between_two_parts_of_a_range_is_reported(path: Path) -> None:
    class Interrupted(Ring):
        """Delivers the first half of what is asked for, and truncates the file before the rest is asked for."""

        def push(
            self,
            tokens: NDArray[np.uint64],
            descriptor: int,
            addresses: NDArray[np.uint64],
            lengths: NDArray[np.int64],
            offsets: NDArray[np.int64],
        ) -> None:
            halves = np.where(lengths == 8000, 4000, lengths)
            super().push(tokens, descriptor, addresses, halves, offsets)

        def drain(self) -> Completions:
            completions = super().drain()
            if (completions[1] == 4000).any():
                os.truncate(path, 6000)
            return completions

    with UringReader(ring_type=Interrupted) as reader, pytest.raises(CorruptFileError, match="6000 bytes"):
        reader.read_ranges(path, [ByteRange(0, 8000)])


def test_an_error_of_the_device_names_file_and_range_and_may_be_tried_again(reader: UringReader) -> None:
    # No page is ever mapped at address 0, and the kernel calls that an input/output error.
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        answer = reader.submit(memory, [room_for(ByteRange(64, 4096))], location="the disk")
        with pytest.raises(StorageError, match="cannot read 4096 bytes from offset 64 of the disk: input") as caught:
            answer.result(30)
    finally:
        os.close(memory)
    assert caught.value.retryable
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EIO


def test_one_bad_range_fails_its_request_and_no_other(path: Path, content: bytes) -> None:
    def break_the_small_ones(completions: Completions) -> Completions:
        tokens, results = completions
        return tokens, np.where(results == 123, -errno.EIO, results).astype(np.int32)

    with UringReader(ring_type=tampered(break_the_small_ones)) as reader, UringFile(path) as file:
        ranges = [ByteRange(at, 4000) for at in range(0, 400_000, 4000)]
        good = [reader.fetch(file, ranges) for _ in range(5)]
        bad = reader.fetch(file, [*ranges, ByteRange(77, 123), *ranges])
        more = [reader.fetch(file, ranges) for _ in range(5)]
        with pytest.raises(StorageError, match="cannot read 123 bytes from offset 77"):
            bad.result(30)
        for answer in good + more:
            assert b"".join(buffer.to_pybytes() for buffer in answer.result(30)) == content[:400_000]


def test_a_failed_request_is_told_of_when_nothing_writes_into_its_memory_any_more(path: Path) -> None:
    failed, may_land = threading.Event(), threading.Event()
    withheld: list[Completions] = []

    def fail_one_and_withhold_the_others(completions: Completions) -> Completions:
        tokens, results = completions
        late = is_read(tokens)
        if late.any() and not failed.is_set():
            first = int(np.flatnonzero(late)[0])
            late[first], results[first] = False, -errno.EIO
            failed.set()
        withheld.append((tokens[late], results[late]))
        landed = [(tokens[~late], results[~late])]
        if may_land.is_set():
            landed += withheld
            withheld.clear()
        return np.concatenate([each for each, _ in landed]), np.concatenate([each for _, each in landed])

    with UringReader(ring_type=tampered(fail_one_and_withhold_the_others)) as reader, UringFile(path) as file:
        answer = reader.fetch(file, [ByteRange(0, 10), ByteRange(100, 10)])
        try:
            assert failed.wait(30)
            with pytest.raises(TimeoutError):
                answer.result(0.2)
        finally:
            may_land.set()
        # The thread sleeps until the kernel has something for it.
        reader.fetch(file, [ByteRange(0, 1)]).result(30)
        with pytest.raises(StorageError, match="cannot read 10 bytes"):
            answer.result(30)


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EINTR])
def test_an_interrupted_read_is_submitted_again(path: Path, content: bytes, code: int) -> None:
    interrupted: set[int] = set()

    def interrupt_once(completions: Completions) -> Completions:
        tokens, results = completions
        for number in np.flatnonzero(is_read(tokens)).tolist():
            if len(interrupted) < 20:
                interrupted.add(int(tokens[number]))
                results[number] = -code
        return tokens, results

    with UringReader(ring_type=tampered(interrupt_once)) as reader:
        buffers = reader.read_ranges(path, [ByteRange(at, 1000) for at in range(0, 30_000, 1000)])
    assert b"".join(buffer.to_pybytes() for buffer in buffers) == content[:30_000]
    assert len(interrupted) == 20


def test_a_read_that_is_interrupted_for_ever_fails(path: Path) -> None:
    def interrupt(completions: Completions) -> Completions:
        tokens, results = completions
        return tokens, np.where(is_read(tokens), -errno.EAGAIN, results).astype(np.int32)

    with UringReader(ring_type=tampered(interrupt)) as reader, pytest.raises(StorageError) as caught:
        reader.read_ranges(path, [ByteRange(0, 1000)])
    assert caught.value.retryable


def test_a_completion_of_more_bytes_than_asked_for_is_an_error(path: Path) -> None:
    def exaggerate(completions: Completions) -> Completions:
        tokens, results = completions
        return tokens, np.where(is_read(tokens), results + 1, results).astype(np.int32)

    message = "the kernel reports 1001 bytes where 1000 were asked for"
    with UringReader(ring_type=tampered(exaggerate)) as reader, pytest.raises(StorageError, match=message):
        reader.read_ranges(path, [ByteRange(0, 1000)])


def test_completions_that_come_late_twice_or_from_nowhere_touch_no_read(
    path: Path, content: bytes, some_ranges: Ranges
) -> None:
    seen: list[int] = []

    def haunt(completions: Completions) -> Completions:
        tokens, results = completions
        new = tokens[is_read(tokens)]
        late = [*random.sample(seen, min(5, len(seen))), 3, (1 << 32) | 999]
        seen.extend(new.tolist())
        all_tokens = np.concatenate([np.array(late, dtype=np.uint64), tokens, new[:2]])
        lies = np.full(len(late), -errno.EIO, dtype=np.int32)
        return all_tokens, np.concatenate([lies, results, results[is_read(tokens)][:2]])

    with UringReader(entries=8, ring_type=tampered(haunt)) as reader:
        for _ in range(20):
            ranges = some_ranges(30)
            buffers = reader.read_ranges(path, ranges)
            assert [buffer.to_pybytes() for buffer in buffers] == [content[at : at + length] for at, length in ranges]
        assert reader.strays > 100


def test_a_late_completion_does_not_end_the_read_that_has_its_slot_now(
    path: Path, content: bytes, pipe: tuple[int, int]
) -> None:
    seen: list[int] = []
    haunting = threading.Event()

    def haunt(completions: Completions) -> Completions:
        tokens, results = completions
        late = np.array(seen if haunting.is_set() else [], dtype=np.uint64)
        seen.extend(tokens[is_read(tokens)].tolist())
        return np.concatenate([late, tokens]), np.concatenate([np.ones(len(late), dtype=np.int32), results])

    with UringReader(entries=4, ring_type=tampered(haunt)) as reader, UringFile(path) as file:
        # Every slot has been used before.
        reader.fetch(file, [ByteRange(at, 10) for at in range(30)]).result(30)
        room = bytearray(1)
        held = reader.submit(pipe[0], [(ByteRange(0, 1), memoryview(room))], location="pipe")
        while not held.running():
            time.sleep(0.001)
        haunting.set()
        buffers = reader.fetch(file, [ByteRange(at, 10) for at in range(30)]).result(30)
        assert [buffer.to_pybytes() for buffer in buffers] == [content[at : at + 10] for at in range(30)]
        assert reader.strays >= 30
        assert not held.done()
        os.write(pipe[1], b"x")
        held.result(30)
        assert room == b"x"


def test_a_ring_that_breaks_fails_what_is_in_flight_and_what_comes_later(path: Path, pipe: tuple[int, int]) -> None:
    class Breaking(Ring):
        def enter(self, wait: int, *, patient: bool = True) -> None:
            if broken.is_set():
                os.close(self.descriptor)
                try:
                    super().enter(wait, patient=patient)
                finally:
                    self.descriptor = -1
            super().enter(wait, patient=patient)

    broken = threading.Event()
    reader = UringReader(ring_type=Breaking)
    held = hold(reader, pipe)
    broken.set()
    with UringFile(path) as file:
        # The ring may break before anything is brought to it or when it is; either way it is told.
        for ask in (lambda: reader.fetch(file, [ByteRange(0, 10)]), lambda: held):
            with pytest.raises(StorageError, match=r"the ring broke.*Bad file descriptor"):
                ask().result(30)
        with pytest.raises(StorageError, match="the ring broke"):
            reader.fetch(file, [ByteRange(0, 10)])
    reader.close()


def test_a_thousand_requests_of_many_threads_at_once(path: Path, content: bytes) -> None:
    def one(number: int) -> bool:
        picks = random.Random(number)
        ranges = [ByteRange(picks.randrange(1 << 19), picks.randrange(20_000)) for _ in range(picks.randrange(1, 6))]
        reads = [room_for(span) for span in ranges]
        reader.submit(file, reads, location=str(path)).result(60)
        return all(bytes(room) == content[offset : offset + length] for (offset, length), room in reads)

    with (
        UringReader(entries=64, most_waiting=100) as reader,
        UringFile(path) as file,
        ThreadPoolExecutor(50) as threads,
    ):
        assert all(threads.map(one, range(1000)))
        assert reader.strays == 0


def test_whoever_brings_more_than_the_queue_holds_has_to_wait(path: Path, pipe: tuple[int, int]) -> None:
    with UringReader(entries=2, most_waiting=3) as reader, UringFile(path) as file:
        hold(reader, pipe)
        answers: list[Future[list[pa.Buffer]]] = []
        brought = threading.Semaphore(0)

        def bring() -> None:
            for number in range(10):
                answers.append(reader.fetch(file, [ByteRange(number, 1)]))
                brought.release()

        thread = threading.Thread(target=bring, daemon=True)
        thread.start()
        try:
            for _ in range(3):
                assert brought.acquire(timeout=30)
            assert not brought.acquire(timeout=0.2)
        finally:
            os.write(pipe[1], b"x")
        thread.join(30)
        assert len(answers) == 10
        assert all(len(answer.result(30)) == 1 for answer in answers)


def test_the_ring_thread_itself_never_waits_for_the_queue(path: Path, content: bytes) -> None:
    with UringReader(entries=2, most_waiting=1) as reader, UringFile(path) as file:
        follow_ups: list[Future[list[pa.Buffer]]] = []
        followed = threading.Event()

        def follow(_: Future[list[pa.Buffer]]) -> None:
            follow_ups.extend(reader.fetch(file, [ByteRange(at, 10)]) for at in range(20))
            followed.set()

        reader.fetch(file, [ByteRange(0, 1)]).add_done_callback(follow)
        assert followed.wait(30)
        assert [answer.result(30)[0].to_pybytes() for answer in follow_ups] == [
            content[at : at + 10] for at in range(20)
        ]


def test_closing_lets_land_what_is_in_flight_and_refuses_what_waits(path: Path, pipe: tuple[int, int]) -> None:
    reader = UringReader(entries=2)
    in_flight = hold(reader, pipe)
    file = UringFile(path)
    waiting = [reader.fetch(file, [ByteRange(0, 10)]) for _ in range(5)]
    closing = threading.Thread(target=reader.close, daemon=True)
    closing.start()
    for answer in waiting:
        with pytest.raises(StorageError, match="closed"):
            answer.result(30)
    assert not in_flight.done()
    os.write(pipe[1], b"x")
    closing.join(30)
    assert not closing.is_alive()
    assert in_flight.result(0) is None
    reader.close()
    with pytest.raises(StorageError, match="closed"):
        reader.fetch(file, [ByteRange(0, 1)])
    file.close()


def test_closing_wakes_up_whoever_waits_for_the_queue(path: Path, pipe: tuple[int, int]) -> None:
    reader = UringReader(entries=2, most_waiting=1)
    held = hold(reader, pipe)
    refused = threading.Event()

    def bring() -> None:
        with UringFile(path) as file, suppress(StorageError):
            while True:
                reader.fetch(file, [ByteRange(0, 1)])
        refused.set()

    bringing = threading.Thread(target=bring, daemon=True)
    bringing.start()
    closing = threading.Thread(target=reader.close, daemon=True)
    closing.start()
    assert refused.wait(30)
    os.write(pipe[1], b"x")
    bringing.join(30)
    closing.join(30)
    assert held.result(0) is None


def test_a_reader_may_be_closed_by_its_own_thread(path: Path) -> None:
    reader = UringReader()
    with UringFile(path) as file:
        reader.fetch(file, [ByteRange(0, 1)]).add_done_callback(lambda _: reader.close())
    reader.close()


def test_a_reader_that_is_dropped_ends_its_thread(path: Path) -> None:
    before = set(threading.enumerate())
    reader = UringReader()
    (thread,) = set(threading.enumerate()) - before
    assert len(reader.read_ranges(path, [ByteRange(0, 1)])) == 1
    del reader
    thread.join(30)
    assert not thread.is_alive()


def test_a_process_may_end_with_a_reader_that_was_not_closed(
    run_script: Callable[[str, Path], str], path: Path
) -> None:
    script = """
    import os, sys
    from formatkit.contract import ByteRange
    from formatkit.io.uring import UringFile, UringReader
    reader, source = UringReader(), os.pipe()[0]
    file = UringFile(sys.argv[1])
    answers = [reader.fetch(file, [ByteRange(0, 1000)]) for _ in range(100)]
    held = reader.submit(source, [(ByteRange(0, 1), memoryview(bytearray(1)))], location="pipe")
    print("ends")
    """
    assert run_script(script, path) == "ends"


def test_a_request_is_cancelled_before_any_of_it_is_submitted(path: Path, pipe: tuple[int, int]) -> None:
    with UringReader(entries=2) as reader, UringFile(path) as file:
        hold(reader, pipe)
        first, second = (reader.fetch(file, [ByteRange(0, 10)]) for _ in range(2))
        assert first.cancel()
        os.write(pipe[1], b"x")
        with pytest.raises(CancelledError):
            first.result(30)
        assert len(second.result(30)) == 1


def test_a_request_that_is_cancelled_at_the_moment_it_is_begun_is_finished_once(descriptor: int) -> None:
    request = request_into(descriptor, "data", [room_for(ByteRange(0, 10))])
    assert request.future.cancel()
    assert not request.begin()
    request.finish()
    assert request.future.cancelled()


def test_cancelling_a_request_in_flight_leaves_out_the_rest_of_it(pipe: tuple[int, int]) -> None:
    rooms = [bytearray(1) for _ in range(10)]
    with UringReader(entries=2) as reader:
        reads = [(ByteRange(0, 1), memoryview(room)) for room in rooms]
        answer = reader.submit(pipe[0], reads, location="pipe")
        while not answer.running():
            time.sleep(0.001)
        assert not answer.cancel()
        os.write(pipe[1], b"abc")
        with pytest.raises(StorageError, match="the request was cancelled"):
            answer.result(30)
    assert b"".join(rooms).count(0) == 9
