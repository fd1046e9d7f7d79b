"""The ring itself: nothing is lost, whatever the order of pushing, submitting and draining."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from formatkit.io.uring.ring import Ring


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring(8)
    yield ring
    ring.close()


def push(ring: Ring, tokens: list[int], descriptor: int, room: np.ndarray) -> None:
    count = len(tokens)
    addresses = np.full(count, room.ctypes.data, dtype=np.uint64)
    ring.push(np.array(tokens, dtype=np.uint64), descriptor, addresses, np.full(count, len(room)), np.zeros(count, int))


def test_completions_beyond_the_ring_are_kept_by_the_kernel(ring: Ring, descriptor: int) -> None:
    room = np.zeros(16, dtype=np.uint8)
    for first in range(0, 64, 8):
        push(ring, list(range(first, first + 8)), descriptor, room)
        ring.enter(0)
    seen: list[int] = []
    while len(seen) < 64:
        tokens, results = ring.drain()
        assert (results == 16).all()
        seen += tokens.tolist()
        ring.enter(0)
    assert sorted(seen) == list(range(64))


def test_positions_wrap_around_the_ends_of_the_rings(ring: Ring, descriptor: int, content: bytes) -> None:
    room = np.zeros(16, dtype=np.uint8)
    for first in range(0, 100, 5):
        push(ring, list(range(first, first + 5)), descriptor, room)
        ring.enter(5)
        tokens, _ = ring.drain()
        assert sorted(tokens.tolist()) == list(range(first, first + 5))
    assert room.tobytes() == content[:16]


def test_a_signal_does_not_end_the_wait(ring: Ring, pipe: tuple[int, int]) -> None:
    room = np.zeros(4, dtype=np.uint8)
    push(ring, [1], pipe[0], room)
    ring.enter(0)
    caught: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
    main = threading.main_thread().ident
    assert main is not None

    def disturb() -> None:
        for _ in range(3):
            time.sleep(0.02)
            signal.pthread_kill(main, signal.SIGUSR1)
        os.write(pipe[1], b"late")

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        ring.enter(1)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert ring.drain()[0].tolist() == [1]
    assert room.tobytes() == b"late"
    assert caught


def test_an_impatient_wait_comes_back_without_completions(ring: Ring, pipe: tuple[int, int]) -> None:
    room = np.zeros(1, dtype=np.uint8)
    push(ring, [1], pipe[0], room)
    ring.enter(1, patient=False)
    assert not len(ring.drain()[0])
    os.write(pipe[1], b"x")
    ring.enter(1)
    assert ring.drain()[0].tolist() == [1]


def test_a_ring_that_cannot_be_mapped_leaves_no_descriptor() -> None:
    class Unmappable(Ring):
        def _map(self, offset: int, length: int) -> int:
            return super()._map(0x7000_0000, length)

    with pytest.raises(OSError, match="mmap of the ring"):
        Unmappable(8)
