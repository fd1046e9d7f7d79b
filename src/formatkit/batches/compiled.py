"""What compiled code is made with: a decorator that caches on disk, and reads and writes of raw memory.

Importing this module imports numba, so only modules that hold compiled code import it, and those are imported when
the first file that is large enough for them is met (see `loading`).

The memory functions know no bounds. Code that calls them compares every address with the end of its buffer first.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["call5", "copy", "inline", "jit", "load8", "load32", "load64", "part", "store8", "store32", "store64"]

F = TypeVar("F", bound=Callable[..., Any])

_settings: Any = numba.config


def jit(signature: str) -> Callable[[F], F]:
    """Compile now for one signature, or load what an earlier process compiled. The code runs without the GIL.

    Compiled code is kept in NUMBA_CACHE_DIR, or beside the package, or in the user's cache folder where that is
    read-only. Where nothing can be written each process compiles for itself.
    """

    def compile_now(function: F) -> F:
        folder, before = _cache_folder(Path(function.__code__.co_filename).parent), _settings.CACHE_DIR
        _settings.CACHE_DIR = folder or before
        try:
            return cast("F", numba.njit(signature, cache=folder is not None, nogil=True, error_model="numpy")(function))
        finally:
            _settings.CACHE_DIR = before

    return compile_now


def _cache_folder(package: Path) -> str | None:
    """A folder for what the sources in a folder compile to, if one can be written.

    numba notices by itself when the file of a function changes, but not when something changes that it calls.
    """
    fingerprint = zlib.crc32(Path(__file__).read_bytes())
    for source in sorted(package.glob("*.py")):
        fingerprint = zlib.crc32(source.read_bytes(), fingerprint)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    bases = [Path(_settings.CACHE_DIR)] if _settings.CACHE_DIR else [package / "__pycache__", caches / "formatkit"]
    for base in bases:
        with suppress(OSError, RuntimeError):
            folder = base.expanduser() / f"compiled-{fingerprint:08x}"
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return str(folder)
    return None


def inline(function: F) -> F:
    """Compile as a part of each caller."""
    return cast("F", numba.njit(inline="always")(function))


def part(function: F) -> F:
    """Compile when a caller is compiled, for the types that it passes."""
    return cast("F", numba.njit(nogil=True, error_model="numpy")(function))


def _memory_access(bits: int, loaded: Any) -> tuple[Any, Any]:
    integer = ir.IntType(bits)

    @intrinsic
    def load(_context: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], integer.as_pointer()))
            value.align = 1
            return value

        return loaded(types.int64), generate

    @intrinsic
    def store(_context: Any, _address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.trunc(arguments[1], integer) if bits < 64 else arguments[1]
            stored = builder.store(value, builder.inttoptr(arguments[0], integer.as_pointer()))
            stored.align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return load, store


load8, store8 = _memory_access(8, types.uint8)
load32, store32 = _memory_access(32, types.int32)
load64, store64 = _memory_access(64, types.int64)


def _copy(_context: Any, _target: Any, _source: Any, _length: Any) -> Any:
    """Copy `length` bytes from one address to another; the two must not overlap."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, byte_pointer) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


# The stubs count the context among the arguments.
copy: Any = intrinsic(_copy)


def _call5(_context: Any, _function: Any, _first: Any, _second: Any, _third: Any, _fourth: Any, _fifth: Any) -> Any:
    """Call a function of five numbers by its address. It must not touch anything of Python's."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        number = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(number, [number] * 5).as_pointer())
        return builder.call(function, arguments[1:])

    return types.int64(*[types.int64] * 6), generate


call5: Any = intrinsic(_call5)
