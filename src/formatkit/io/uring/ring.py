"""One io_uring: two rings of memory shared with the kernel, and the call that makes it look at them."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatkit.io.uring import syscalls
from formatkit.io.uring.syscalls import SetupParameters

__all__ = ["FEATURES", "Completions", "Ring"]

FEATURES = {
    "SINGLE_MMAP": 1 << 0,
    "NODROP": 1 << 1,
    "RW_CUR_POS": 1 << 3,
    "FAST_POLL": 1 << 5,
    "EXT_ARG": 1 << 8,
    "NATIVE_WORKERS": 1 << 9,
    "MIN_TIMEOUT": 1 << 15,
}
# No completion is ever dropped; reads without a vector came to the kernel together with RW_CUR_POS.
_NEEDED_FEATURES = ("SINGLE_MMAP", "NODROP", "RW_CUR_POS")

_SETUP_CLAMP = 1 << 4
_SETUP_COOP_TASKRUN = 1 << 8
_SETUP_SINGLE_ISSUER = 1 << 12
_SETUP_DEFER_TASKRUN = 1 << 13
# Completions are worked off only when the ring's thread asks for them, which is fastest; then what older kernels know.
_SETUPS = (_SETUP_CLAMP | _SETUP_SINGLE_ISSUER | _SETUP_DEFER_TASKRUN, _SETUP_CLAMP | _SETUP_COOP_TASKRUN, _SETUP_CLAMP)

_ENTER_GETEVENTS = 1 << 0
_ENTER_EXT_ARG = 1 << 3
_OFFSET_RINGS = 0
_OFFSET_ENTRIES = 0x1000_0000

_OP_READ = 22
_WRAP = 0xFFFF_FFFF
_PATIENCE_NANOSECONDS = 200_000

_SUBMISSION = np.dtype(
    {
        "names": ["operation", "descriptor", "offset", "address", "length", "token"],
        "formats": ["u1", "i4", "u8", "u8", "u4", "u8"],
        "offsets": [0, 4, 8, 16, 24, 32],
        "itemsize": 64,
    }
)
_COMPLETION = np.dtype([("token", "u8"), ("result", "i4"), ("flags", "u4")])

Completions = tuple[NDArray[np.uint64], NDArray[np.int32]]


class Ring:
    """Reads that are pushed, submitted together, and drained when they are complete.

    Only the thread that made a ring may use it, and it must keep at most `entries` reads in flight.

    Memory order. Submissions: the kernel looks at them only inside `enter`, on this same thread, so it sees what the
    thread stored before. Completions: kernels from 6.2 on write them inside `enter` too; older ones may write them on
    another processor at any time. The kernel stores a completion before the tail that covers it; loading the tail
    before the completion is what x86 does anyway, and what `drain` enforces elsewhere. A completion cannot be
    overwritten while it is copied out, whenever the store of the head becomes visible, because the ring of completions
    has room for twice as many as are ever in flight.
    """

    def __init__(self, entries: int) -> None:
        self.descriptor, parameters = _set_up(entries)
        self.entries = parameters.sq_entries
        self.features = parameters.features
        submission, completion = parameters.submission, parameters.completion
        self._completion_entries = parameters.cq_entries
        self._maps: list[tuple[int, int]] = []
        try:
            _check_features(self.features)
            end_of_array = submission.array + self.entries * 4
            rings = self._map(_OFFSET_RINGS, max(end_of_array, completion.cqes + self._completion_entries * 16))
            submissions = self._map(_OFFSET_ENTRIES, self.entries * _SUBMISSION.itemsize)
        except OSError:
            self.close()
            raise
        self._submission_head = _word(rings + submission.head)
        self._submission_tail = _word(rings + submission.tail)
        self._completion_head = _word(rings + completion.head)
        self._completion_tail = _word(rings + completion.tail)
        self._lost = _word(rings + completion.overflow)
        self._completions = _array(rings + completion.cqes, _COMPLETION, self._completion_entries)
        _array(rings + submission.array, np.dtype("u4"), self.entries)[:] = np.arange(self.entries)
        entry = _array(submissions, _SUBMISSION, self.entries)
        entry["operation"] = _OP_READ
        self._descriptor, self._offset, self._address = entry["descriptor"], entry["offset"], entry["address"]
        self._length, self._token = entry["length"], entry["token"]
        self._count = np.arange(self._completion_entries)
        self._patience = _Patience()

    def push(
        self,
        tokens: NDArray[np.uint64],
        descriptor: int,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> None:
        """Write reads of one file into the ring. The caller keeps count, so there is always room."""
        tail = self._submission_tail[0]
        at = (tail + self._count[: len(tokens)]) & (self.entries - 1)
        self._descriptor[at] = descriptor
        self._offset[at] = offsets
        self._address[at] = addresses
        self._length[at] = lengths
        self._token[at] = tokens
        self._submission_tail[0] = (tail + len(tokens)) & _WRAP

    def enter(self, wait: int, *, patient: bool = True) -> None:
        """Submit what was pushed and wait for completions; a signal may end the wait.

        Args:
            wait: For how many completions.
            patient: False to come back soon, with fewer of them.
        """
        flags, argument, size = _ENTER_GETEVENTS, None, 0
        if not patient and self.features & FEATURES["EXT_ARG"]:
            flags, argument, size = flags | _ENTER_EXT_ARG, self._patience.address, self._patience.size
        elif not patient:
            wait = 1
        while True:
            pushed = (self._submission_tail[0] - self._submission_head[0]) & _WRAP
            done = syscalls.enter(self.descriptor, pushed, wait, flags, argument, size)
            if done >= 0 or done == -errno.ETIME:
                return
            if done in (-errno.EAGAIN, -errno.EBUSY):
                # Short of memory, or completions wait to be drained. What was not submitted stays in the ring.
                time.sleep(0.001)
                return
            if done != -errno.EINTR:
                raise OSError(-done, f"{os.strerror(-done)} (io_uring_enter)")

    def drain(self) -> Completions:
        """The tokens and results of what is complete. Those that did not fit the ring follow after the next `enter`."""
        head = self._completion_head[0]
        tail = self._completion_tail[0]
        count = (tail - head) & _WRAP
        if count and not _LOADS_ARE_ORDERED:
            # A branch on the tail, then entering the kernel, which discards what was loaded ahead.
            os.getppid()
        taken = self._completions[(head + self._count[:count]) & (self._completion_entries - 1)]
        self._completion_head[0] = tail
        if self._lost[0]:
            raise OSError(errno.ENOMEM, f"the kernel lost {self._lost[0]} completions (io_uring)")
        return taken["token"], taken["result"]

    def close(self) -> None:
        """Unmap and close; the kernel cancels what is in flight."""
        for address, length in self._maps:
            syscalls.unmap(address, length)
        self._maps.clear()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def forget(self) -> None:
        """In a forked child: close the copy of the descriptor. The maps were not inherited."""
        self._maps.clear()
        self.close()

    def _map(self, offset: int, length: int) -> int:
        address = syscalls.map_shared(self.descriptor, length, offset)
        self._maps.append((address, length))
        return address


_LOADS_ARE_ORDERED = platform.machine() in ("x86_64", "AMD64")


class _Patience:
    """`struct io_uring_getevents_arg` with a time limit, at a fixed address."""

    size = 24

    def __init__(self) -> None:
        self._limit = (ctypes.c_int64 * 2)(0, _PATIENCE_NANOSECONDS)
        self._argument = (ctypes.c_uint64 * 3)(0, 0, ctypes.addressof(self._limit))
        self.address = ctypes.addressof(self._argument)


def _set_up(entries: int) -> tuple[int, SetupParameters]:
    for flags in _SETUPS[:-1]:
        parameters = SetupParameters(flags=flags)
        try:
            return syscalls.setup(entries, parameters), parameters
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    parameters = SetupParameters(flags=_SETUPS[-1])
    return syscalls.setup(entries, parameters), parameters


def _check_features(features: int) -> None:
    missing = [name for name in _NEEDED_FEATURES if not features & FEATURES[name]]
    if missing:
        raise OSError(errno.EOPNOTSUPP, f"its io_uring is too old, without {' and '.join(missing)}")


def _word(address: int) -> memoryview:
    return memoryview((ctypes.c_uint32 * 1).from_address(address)).cast("B").cast("I")


def _array(address: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    memory = memoryview((ctypes.c_char * (dtype.itemsize * count)).from_address(address)).cast("B")
    return np.frombuffer(memory, dtype=dtype)
