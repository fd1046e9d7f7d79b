"""Real rings and real files; every test must leave descriptors and threads as it found them."""

from __future__ import annotations

import faulthandler
import os
import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from formatkit.contract import ByteRange
from formatkit.io.uring import UringReader, availability

_LONGEST_TEST_SECONDS = 120
CONTENT = random.Random(7).randbytes(1 << 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    found = availability()
    if not found.available:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents and "needs_no_ring" not in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason=f"io_uring is not available: {found.reason}"))


@pytest.fixture
def needs_no_ring() -> None:
    """Marks tests that run everywhere."""


def open_descriptors() -> dict[str, str]:
    names = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            names[entry.name] = str(entry.readlink())
        except FileNotFoundError:
            continue
    return names


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    """Nothing may hang: a test that does ends its process, and says where every thread stands."""
    faulthandler.dump_traceback_later(_LONGEST_TEST_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    descriptors, threads = open_descriptors(), set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= threads
    assert open_descriptors().items() <= descriptors.items()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def content() -> bytes:
    return CONTENT


@pytest.fixture
def descriptor(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe: a read of it is in flight for as long as nothing is written."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


@pytest.fixture
def reader() -> Iterator[UringReader]:
    with UringReader() as reader:
        yield reader


@pytest.fixture
def some_ranges() -> Callable[[int], list[ByteRange]]:
    """Makes a number of ranges of the content: overlapping, out of order, small and large."""
    picks = random.Random(11)

    def make(count: int) -> list[ByteRange]:
        starts = [picks.randrange(len(CONTENT)) for _ in range(count)]
        return [ByteRange(start, picks.randrange(min(20_000, len(CONTENT) - start + 1))) for start in starts]

    return make


@pytest.fixture
def run_script() -> Callable[[str, Path], str]:
    """Runs a script in a process of its own; what it printed."""

    def run(script: str, path: Path) -> str:
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
