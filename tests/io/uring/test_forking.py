"""Fork: a child never touches its parent's ring, and both read right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

RunScript = Callable[[str, Path], str]

START = """
import os, sys, threading
import pyarrow as pa
from formatkit.contract import ByteRange
from formatkit.errors import StorageError
from formatkit.io.uring import UringFile, UringReader

path = sys.argv[1]
content = open(path, "rb").read()
ranges = [ByteRange(at, 3000) for at in range(0, 900_000, 3000)]

def right(buffers):
    return b"".join(buffer.to_pybytes() for buffer in buffers) == content[:900_000]

def rings():
    names = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return [name for name in names if os.path.lexists(name) and "io_uring" in os.readlink(name)]

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid

def succeeded(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def test_with_requests_in_flight_the_child_gets_a_ring_and_the_parent_its_data(
    run_script: RunScript, path: Path
) -> None:
    script = """
    reader = UringReader()
    file = UringFile(path)
    source, target = os.pipe()
    room = bytearray(5)
    held = reader.submit(source, [(ByteRange(0, 5), memoryview(room))], location="pipe")
    while not held.running():
        pass
    many = [reader.fetch(file, ranges) for _ in range(20)]

    def child():
        assert not rings(), "the child must not hold its parent's ring"
        try:
            held.result(10)
            raise AssertionError("the read was the parent's")
        except StorageError as error:
            assert error.retryable and "forked" in str(error)
        assert all(answer.done() for answer in many)
        assert right(reader.fetch(file, ranges).result(30))
        assert right(reader.read_ranges(path, ranges))
        assert len(rings()) == 1
        reader.close()
        assert not rings() and threading.active_count() == 1

    children = [in_child(child) for _ in range(3)]
    assert all([succeeded(pid) for pid in children])
    assert all(right(answer.result(30)) for answer in many)
    assert not held.done()
    os.write(target, b"hello")
    held.result(30)
    assert bytes(room) == b"hello"
    assert right(reader.fetch(file, ranges).result(30))
    reader.close()
    print("fine")
    """
    assert run_script(START + _dedented(script), path) == "fine"


def test_a_child_may_fork_again_while_threads_submit(run_script: RunScript, path: Path) -> None:
    script = """
    reader = UringReader(entries=8, most_waiting=16)
    file = UringFile(path)
    stop = threading.Event()
    wrong = []

    # Not with memory of Arrow's pool, whose locks do not survive a fork while other threads allocate.
    def reads_right():
        room = bytearray(900_000)
        views = [(span, memoryview(room)[span.offset : span.end]) for span in ranges]
        reader.submit(file, views, location=path).result(30)
        return room == content[:900_000]

    def keep_reading():
        while not stop.is_set():
            if not reads_right():
                wrong.append(1)

    threads = [threading.Thread(target=keep_reading) for _ in range(4)]
    for thread in threads:
        thread.start()

    def grandchild():
        assert reads_right()

    def child():
        assert reads_right()
        assert succeeded(in_child(grandchild))
        assert reads_right()
        reader.close()

    children = [in_child(child) for _ in range(5)]
    assert all([succeeded(pid) for pid in children])
    stop.set()
    for thread in threads:
        thread.join()
    reader.close()
    assert not wrong
    print("fine")
    """
    assert run_script(START + _dedented(script), path) == "fine"


def test_a_reader_that_was_closed_stays_closed_in_the_child(run_script: RunScript, path: Path) -> None:
    script = """
    reader = UringReader()
    reader.close()

    def child():
        try:
            reader.read_ranges(path, ranges)
        except StorageError as error:
            assert "closed" in str(error)
        else:
            raise AssertionError("the reader was closed")

    assert succeeded(in_child(child))
    print("fine")
    """
    assert run_script(START + _dedented(script), path) == "fine"


def _dedented(script: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in script.splitlines())
