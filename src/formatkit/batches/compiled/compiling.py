"""Compiles a package of kernels in this process: into an image where that is possible, else as numba does it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba

from formatkit.batches.compiled.building import build, import_kernels, signature
from formatkit.batches.compiled.images import (
    Image,
    belongs_to_us,
    cache_folder,
    fingerprint,
    image_places,
    processor,
)
from formatkit.batches.compiled.linking import LinkError

__all__ = ["compiled"]

_settings: Any = numba.config


def compiled(package: str, folder: Path) -> Any:
    """The functions of a package, by their names. Raises whatever keeps them from being compiled."""
    if (level := processor()) is not None:
        # Numba also compiles code that calls a library.
        with suppress(LinkError):
            image = build(package, level)
            found = image.functions()
            _store(folder, image)
            return found
    functions = import_kernels(package)
    caches = _cache_folder(folder)
    for function in functions.values():
        _compile(function, caches)
    return SimpleNamespace(**functions)


def _store(package: Path, image: Image) -> None:
    """Keep an image for other processes, where that is possible."""
    for path in image_places(package):
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, image)
            if path.parent == package:
                _remove_others(path)
            return


def _write(path: Path, image: Image) -> None:
    """Others see the whole file or none."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            file.write(image.to_bytes(path.name))
            file.close()
            Path(file.name).chmod(0o644)
            Path(file.name).replace(path)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise


def _remove_others(path: Path) -> None:
    """Remove images of earlier sources. Who uses them has them in memory."""
    for other in path.parent.glob(f"{processor()}-*.image"):
        if other != path:
            other.unlink(missing_ok=True)


def _compile(function: Any, caches: str | None) -> None:
    """Compile now, or load what an earlier process compiled."""
    before = _settings.CACHE_DIR
    _settings.CACHE_DIR = caches or before
    try:
        if caches is not None:
            function.enable_caching()
        function.compile(signature(function))
    finally:
        _settings.CACHE_DIR = before


def _cache_folder(package: Path) -> str | None:
    """A folder for what numba makes of a package, if one can be written, and by nobody else: numba runs what it finds.

    numba notices by itself when the file of a function changes, but not when something changes that it calls.
    """
    bases = [Path(_settings.CACHE_DIR)] if _settings.CACHE_DIR else [package / "__pycache__", cache_folder()]
    for base in bases:
        with suppress(OSError):
            folder = base / f"compiled-{fingerprint(package):08x}"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(folder, os.W_OK) and belongs_to_us(folder.lstat()):
                return str(folder)
    return None
