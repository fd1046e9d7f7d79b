"""zstd as compiled code calls it: by address, so that a whole column is decompressed without Python in between."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

__all__ = ["NO_ZSTD", "Zstd", "thread_zstd"]

_SYSTEM = "libzstd.so.1"
_FAST_VERSION = 10504
"""From this version on the library of the system is built with loops in assembler, which the next one is not."""

_MODULE = "zstandard._cffi"
"""A module of zstandard for interpreters without C extensions, whose functions can be called by everybody."""


class Zstd(NamedTuple):
    """Addresses of `ZSTD_decompressDCtx` and of a context for it, which one thread may use; zeros if there are none."""

    function: int
    context: int


NO_ZSTD = Zstd(0, 0)


@cache
def _library() -> Any:
    """Zstd's library, or None where there is none that shows its functions."""
    for find in (_system_library, _module_library):
        # A library that lacks one of the functions raises the last of these.
        with suppress(ImportError, OSError, AttributeError):
            library = find()
            library.ZSTD_createDCtx.restype = ctypes.c_void_p
            library.ZSTD_freeDCtx.argtypes = [ctypes.c_void_p]
            _ = library.ZSTD_decompressDCtx
            return library
    return None


def _system_library() -> Any:
    library = ctypes.CDLL(_SYSTEM)
    if library.ZSTD_versionNumber() < _FAST_VERSION:
        raise OSError("it is old")
    return library


def _module_library() -> Any:
    found = find_spec(_MODULE)
    if found is None or not found.origin:
        raise ImportError("zstandard comes without this module")
    return ctypes.CDLL(found.origin)


class _Context:
    """A context of zstd, freed with the thread that it belongs to."""

    def __init__(self) -> None:
        self._library = library = _library()
        self.zstd = NO_ZSTD
        if library is not None and (context := library.ZSTD_createDCtx()):
            self.zstd = Zstd(ctypes.cast(library.ZSTD_decompressDCtx, ctypes.c_void_p).value or 0, context)

    def __del__(self) -> None:
        if self.zstd.context:
            self._library.ZSTD_freeDCtx(self.zstd.context)


_thread = threading.local()


def thread_zstd() -> Zstd:
    """What this thread calls."""
    try:
        zstd: Zstd = _thread.context.zstd
    except AttributeError:
        _thread.context = _Context()
        zstd = _thread.context.zstd
    return zstd
