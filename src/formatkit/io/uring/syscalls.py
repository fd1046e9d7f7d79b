"""The system calls of io_uring, and those that the C library has for mapping memory, through ctypes.

ctypes gives up the interpreter's lock for the length of each call, so a thread that waits in the kernel stops nobody.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import NoReturn

__all__ = ["SetupParameters", "enter", "map_shared", "setup", "unmap"]

# Numbers of system calls as young as these are the same on every architecture.
_IO_URING_SETUP = 425
_IO_URING_ENTER = 426

_PROT_READ_WRITE = 0x1 | 0x2
_MAP_SHARED_POPULATE = 0x01 | 0x8000
_MADV_DONTFORK = 10
_MAP_FAILED = ctypes.c_void_p(-1).value


class _SubmissionOffsets(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("head", "tail", "mask", "entries", "flags", "dropped", "array", "_pad")),
        ("_user_address", ctypes.c_uint64),
    ]
    head: int
    tail: int
    mask: int
    array: int


class _CompletionOffsets(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("head", "tail", "mask", "entries", "overflow", "cqes", "flags", "_pad")),
        ("_user_address", ctypes.c_uint64),
    ]
    head: int
    tail: int
    mask: int
    overflow: int
    cqes: int


class SetupParameters(ctypes.Structure):
    """`struct io_uring_params`: what is wished for goes in, what was made comes out."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("sq_entries", "cq_entries", "flags", "_cpu", "_idle", "features")),
        ("_wq", ctypes.c_uint32),
        ("_reserved", ctypes.c_uint32 * 3),
        ("submission", _SubmissionOffsets),
        ("completion", _CompletionOffsets),
    ]
    sq_entries: int
    cq_entries: int
    flags: int
    features: int
    submission: _SubmissionOffsets
    completion: _CompletionOffsets


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


@cache
def _system_call(*argument_types: type) -> Callable[..., int]:
    """The C library's `syscall` for arguments of these types."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, *argument_types, use_errno=True)
    return prototype(("syscall", _libc()))


def setup(entries: int, parameters: SetupParameters) -> int:
    """Make a ring; its descriptor, which the kernel marks to be closed on exec."""
    call = _system_call(ctypes.c_uint, ctypes.c_void_p)
    descriptor = call(_IO_URING_SETUP, entries, ctypes.addressof(parameters))
    if descriptor < 0:
        _fail("io_uring_setup")
    return descriptor


def enter(descriptor: int, submit: int, wait: int, flags: int, argument: int | None, argument_size: int) -> int:
    """Submit and wait; how many were submitted, or the negative error number."""
    call = _system_call(*[ctypes.c_uint] * 4, ctypes.c_void_p, ctypes.c_size_t)
    done = call(_IO_URING_ENTER, descriptor, submit, wait, flags, argument, argument_size)
    return done if done >= 0 else -ctypes.get_errno()


def map_shared(descriptor: int, length: int, offset: int) -> int:
    """Map a part of a ring; its address. A forked child does not get it, so it cannot disturb its parent's ring.

    Python's own `mmap` would unmap by itself when it is collected. In a child there is nothing to unmap at that
    address, except by then something else.
    """
    libc = _libc()
    address: int | None = libc.mmap(None, length, _PROT_READ_WRITE, _MAP_SHARED_POPULATE, descriptor, offset)
    if address is None or address == _MAP_FAILED:
        _fail("mmap of the ring")
    if libc.madvise(address, length, _MADV_DONTFORK) != 0:
        _fail("madvise of the ring")
    return address


def unmap(address: int, length: int) -> None:
    """Undo `map_shared`."""
    if _libc().munmap(address, length) != 0:
        _fail("munmap of the ring")


def _fail(call: str) -> NoReturn:
    code = ctypes.get_errno()
    raise OSError(code, f"{os.strerror(code)} ({call})")
