"""Builds images: numba compiles a package of kernels, and what it made becomes one block of bytes."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from typing import Any

import llvmlite.binding as llvm
import numba

from formatkit.batches.compiled.images import Image
from formatkit.batches.compiled.language import COMPILED, entries
from formatkit.batches.compiled.linking import link

__all__ = ["build", "import_kernels", "signature"]

_TRIPLE = "x86_64-unknown-linux-gnu"

_CALLED = """
define i64 @"{name}"({parameters}) {{
  %result = alloca i64
  %problem = alloca ptr
  %status = call i32 @"{compiled}"(ptr %result, ptr %problem, {arguments})
  %value = load i64, ptr %result
  %good = icmp eq i32 %status, 0
  %answer = select i1 %good, i64 %value, i64 -1
  ret i64 %answer
}}
declare i32 @"{compiled}"(ptr, ptr, {types})
"""
"""Numba's functions return a status, and store what they return; status and problem never occur without exceptions."""


def import_kernels(package: str) -> dict[str, Any]:
    """Import all modules of a package; returns its functions by name, as numba's dispatchers, not compiled yet."""
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        import_module(module.name)
    return dict(entries(package))


def signature(function: Any) -> str:
    """How numba spells the type of a function that Python calls."""
    return f"int64({', '.join(['int64'] * _arguments(function))})"


def build(package: str, processor: str) -> Image:
    """Compile a package of kernels for processors of a level."""
    functions = import_kernels(package)
    module = llvm.parse_assembly("")
    module.triple = _TRIPLE
    for name, function in functions.items():
        (compiled,) = _without_python(function).overloads.values()
        module.link_in(llvm.parse_assembly(compiled.library.get_llvm_str()))
        module.link_in(llvm.parse_assembly(_called(name, compiled.fndesc.llvm_func_name, _arguments(function))))
    for each in (*module.functions, *module.global_variables):
        if each.name not in functions and not each.is_declaration:
            each.linkage = "internal"
    machine = llvm.Target.from_triple(_TRIPLE).create_target_machine(
        cpu=processor, opt=3, reloc="pic", codemodel="small"
    )
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    linked = link(machine.emit_object(module))
    calls = {name: (linked.functions[name], _arguments(function)) for name, function in functions.items()}
    return Image(calls=calls, code=linked.code, compiler=_versions())


def _versions() -> str:
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    return f"numba {numba.__version__}, llvmlite {version('llvmlite')}, LLVM {llvm_version}"


def _without_python(function: Any) -> Any:
    """The same function, compiled, without what lets Python call it."""
    # The stubs do not know these options.
    options: dict[str, Any] = {**COMPILED, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(signature(function), **options)(function.py_func)


def _arguments(function: Any) -> int:
    return len(inspect.signature(function.py_func).parameters)


def _called(name: str, compiled: str, count: int) -> str:
    return _CALLED.format(
        name=name,
        compiled=compiled,
        parameters=", ".join(f"i64 %a{number}" for number in range(count)),
        arguments=", ".join(f"i64 %a{number}" for number in range(count)),
        types=", ".join(["i64"] * count),
    )
