"""Gives out the functions of compiled code: once per process, not before it pays, and never halfway through a fork."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from formatkit.batches.compiled.images import find_image
from formatkit.forks import imported, uninterrupted

__all__ = ["Payback", "are_ready", "kernels"]

_loaded: dict[str, Any] = {}
_without_image: set[str] = set()


def kernels(package: str) -> Any:
    """The functions of a package of compiled code, by their names. Without an image they are compiled now."""
    if are_ready(package):
        return _loaded[package]
    with uninterrupted:
        if package not in _loaded:
            compiling = imported("formatkit.batches.compiled.compiling")
            _loaded[package] = compiling.compiled(package, _folder(package))
        return _loaded[package]


def are_ready(package: str) -> bool:
    """Whether `kernels` returns at once."""
    if package in _loaded:
        return True
    with uninterrupted:
        if package not in _loaded and package not in _without_image:
            if (found := find_image(_folder(package))) is None:
                _without_image.add(package)
            else:
                _loaded[package] = found
        return package in _loaded


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"there is no package {package}")
    return Path(spec.submodule_search_locations[0])


class Payback:
    """Decides when compiling a package, or importing the compiler, is worth the time that it takes.

    Nobody knows how much a process is still going to read. Doing it once a process has read as much without the
    compiled code as that costs is never worse than twice the best decision. With an image it costs nothing.

    Args:
        package: Its full name.
        price: How many bytes are read without it in the time that loading takes.
    """

    def __init__(self, package: str, price: int) -> None:
        self._package = package
        self._unpaid = price

    @property
    def paid(self) -> bool:
        """Whether whatever is read now should be read by the compiled code."""
        return self._unpaid < 0 or are_ready(self._package)

    def reached(self, length: int) -> bool:
        """Count so many bytes to be read now. True if they should be read by the compiled code."""
        with uninterrupted:
            self._unpaid -= 0 if self.paid else length
            return self.paid
