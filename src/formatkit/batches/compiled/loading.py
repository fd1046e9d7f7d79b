"""Gives out the functions of compiled code: once per process, not before it pays, and never halfway through a fork."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from formatkit.batches.compiled.images import find_image
from formatkit.errors import UnsupportedError
from formatkit.forks import imported, uninterrupted

__all__ = ["Payback", "are_ready", "can_load", "kernels", "refused_images"]

_log = logging.getLogger(__name__)

_loaded: dict[str, Any] = {}
_refused_images: dict[str, str] = {}
_failures: dict[str, str] = {}


def kernels(package: str) -> Any:
    """The functions of a package of compiled code, by their names. Without an image they are compiled now.

    Raises:
        UnsupportedError: There is no image that can be used, and compiling fails.
    """
    if not can_load(package):
        message = f"the compiled code of {package} cannot be used: {_failures[package]}"
        raise UnsupportedError(f"{message}. `formatkit doctor` says what is missing")
    return _loaded[package]


def can_load(package: str) -> bool:
    """Whether `kernels` returns, after compiling if need be. What fails once in a process is not tried again."""
    if are_ready(package):
        return True
    with uninterrupted:
        if package not in _loaded and package not in _failures:
            try:
                compiling = imported("formatkit.batches.compiled.compiling")
                _loaded[package] = compiling.compiled(package, _folder(package))
            except Exception as error:  # noqa: BLE001 - the compiler is not ours; whatever fails, others decode
                _failures[package] = f"{type(error).__name__}: {error}"
                _log.warning("%s is not compiled, files are decoded without it: %s", package, _failures[package])
        return package in _loaded


def are_ready(package: str) -> bool:
    """Whether there is no need to compile."""
    if package in _loaded:
        return True
    with uninterrupted:
        if package not in _loaded and package not in _refused_images:
            found, refused = find_image(_folder(package))
            _refused_images[package] = refused
            if found is not None:
                _loaded[package] = found
            elif refused:
                _log.warning("an image of compiled code is not used: %s", refused)
        return package in _loaded


def refused_images(package: str) -> str:
    """Which images were found and not used, and why; empty if none was."""
    are_ready(package)
    return _refused_images[package]


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
        return are_ready(self._package) or (self._unpaid < 0 and can_load(self._package))

    def reached(self, length: int) -> bool:
        """Count so many bytes to be read now. True if they should be read by the compiled code."""
        with uninterrupted:
            self._unpaid -= 0 if self.paid else length
            return self.paid
