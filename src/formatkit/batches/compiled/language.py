"""What compiled code is written in: Python that numba compiles, and reads and writes of raw memory.

Compiled code stands in packages called `kernels`. Importing this module imports numba, so nothing else imports it;
everybody else asks `loading` for the functions of a package.

The memory functions know no bounds. Code that calls them compares every address with the end of its buffer first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

__all__ = [
    "COMPILED",
    "call5",
    "copy",
    "entries",
    "entry",
    "inline",
    "leading_zeros",
    "load8",
    "load32",
    "load64",
    "move16",
    "ones",
    "part",
    "reversed_bits",
    "reversed_bytes",
    "store8",
    "store32",
    "store64",
    "trailing_zeros",
]

F = TypeVar("F", bound=Callable[..., Any])

COMPILED: Mapping[str, Any] = {"nogil": True, "error_model": "numpy"}
"""How numba compiles: without the GIL, and without exceptions."""

_entries: dict[str, dict[str, Any]] = {}


def entry(function: F) -> F:
    """Compile as a function that Python calls. Its arguments and what it returns are integers of 64 bits."""
    compiled = part(function)
    package = function.__module__.rpartition(".")[0]
    _entries.setdefault(package, {})[function.__name__] = compiled
    return compiled


def entries(package: str) -> Mapping[str, Any]:
    """The functions of a package that Python calls, by name, as numba's dispatchers."""
    return _entries.get(package, {})


def inline(function: F) -> F:
    """Compile as a part of each caller."""
    return cast("F", numba.njit(inline="always")(function))


def part(function: F) -> F:
    """Compile when a caller is compiled, for the types that it passes."""
    return cast("F", numba.njit(**COMPILED)(function))


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


def _move(size: int) -> Any:
    """A function that copies so many bytes to its first argument from its second; they may overlap."""
    vector = ir.VectorType(ir.IntType(8), size).as_pointer()

    @intrinsic
    def move(_context: Any, _target: Any, _source: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[1], vector))
            value.align = 1
            builder.store(value, builder.inttoptr(arguments[0], vector)).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return move


move16, _move32 = _move(16), _move(32)


@part
def copy(target: int, source: int, length: int) -> None:
    """Copy `length` bytes from one address to another; the two must not overlap. Compiled code calls no libraries."""
    if length >= 32:
        last = length - 32
        at = 0
        while at < last:
            _move32(target + at, source + at)
            at += 32
        _move32(target + last, source + last)
    elif length >= 16:
        move16(target, source)
        move16(target + length - 16, source + length - 16)
    elif length >= 8:
        first, second = load64(source), load64(source + length - 8)
        store64(target, first)
        store64(target + length - 8, second)
    else:
        for number in range(length):
            store8(target + number, load8(source + number))


def _bit_operation(generate: Callable[[Any, Any], Any]) -> Any:
    """A function of one integer that the processor has an instruction for."""

    @intrinsic
    def operation(_context: Any, _value: Any) -> Any:
        return types.int64(types.int64), lambda _context, builder, _signature, values: generate(builder, values[0])

    return operation


leading_zeros = _bit_operation(lambda builder, value: builder.ctlz(value, ir.Constant(ir.IntType(1), 1)))
reversed_bytes = _bit_operation(lambda builder, value: builder.bswap(value))
ones = _bit_operation(lambda builder, value: builder.ctpop(value))
reversed_bits = _bit_operation(lambda builder, value: builder.bitreverse(value))
trailing_zeros = _bit_operation(lambda builder, value: builder.cttz(value, ir.Constant(ir.IntType(1), 1)))


def _call5(_context: Any, _function: Any, _first: Any, _second: Any, _third: Any, _fourth: Any, _fifth: Any) -> Any:
    """Call a function of five numbers by its address. It must not touch anything of Python's."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        number = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(number, [number] * 5).as_pointer())
        return builder.call(function, arguments[1:])

    return types.int64(*[types.int64] * 6), generate


# The stubs count the context among the arguments.
call5: Any = intrinsic(_call5)
