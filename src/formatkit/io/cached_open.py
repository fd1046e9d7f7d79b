"""Opens local files whose names the kernel has in memory, without ever waiting for storage."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from functools import cache

__all__ = ["open_if_cached"]

_OPENAT2 = 437
_CURRENT_FOLDER = -100
_RESOLVE_CACHED = 0x20


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


# Opening a pipe would wait for its other end, unless it is told not to.
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_HOW = _How(flags=_FLAGS, mode=0, resolve=_RESOLVE_CACHED)
_unavailable = sys.platform != "linux"


def open_if_cached(path: str) -> int | None:
    """A descriptor of an ordinary file; None if it is not known without asking the storage whether there is one."""
    global _unavailable  # noqa: PLW0603
    if _unavailable:
        return None
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        return None
    if b"\0" in name:  # where the kernel would take the name to end, and open another file
        return None
    descriptor = _system_call()(_OPENAT2, _CURRENT_FOLDER, name, ctypes.byref(_HOW), ctypes.sizeof(_HOW))
    if descriptor < 0:
        # Older kernels do not know the call or its flag, and some sandboxes forbid it.
        _unavailable = ctypes.get_errno() in (errno.ENOSYS, errno.EINVAL, errno.EPERM)
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    os.set_blocking(descriptor, True)
    return int(descriptor)


@cache
def _system_call() -> ctypes._NamedFuncPointer:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    return call
