"""Images: files of compiled code that are mapped into memory and called, without whatever compiled them.

Importing numba takes longer than decoding 100 MB, and as much memory. So code is compiled when formatkit is installed.
An image lies beside the sources it was made of, or in the user's cache folder, and its name tells what these were and
which processors it is for.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = [
    "Image",
    "ImageError",
    "cache_folder",
    "find_image",
    "fingerprint",
    "image_places",
    "mapped",
    "processor",
]

_MAGIC = b"formatkit image 1\n"
_PAGE = 4096
_COMPILER = ("arrays.py", "building.py", "language.py", "linking.py")
"""The sources of this package that make a difference to what kernels are compiled to."""

_VARIABLE, _OFF = "FORMATKIT_IMAGES", "off"
"""The folder where images are looked for and kept, instead of the usual places; or that there are to be none."""

_MODERN = "x86-64-v3"
_MODERN_FLAGS = {"abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}


class ImageError(Exception):
    """A file is no image, or a damaged one."""


@dataclass(frozen=True)
class Image:
    """Compiled code.

    Attributes:
        calls: Where each function begins, and how many arguments it has.
        code: The instructions and constants.
    """

    calls: Mapping[str, tuple[int, int]]
    code: bytes

    def to_bytes(self) -> bytes:
        described = json.dumps({"calls": self.calls, "size": len(self.code), "crc": zlib.crc32(self.code)})
        head = _MAGIC + described.encode() + b"\n"
        # Code begins with a page of memory, so that constants are aligned as the compiler believes.
        return head + bytes(-len(head) % _PAGE) + self.code


@cache
def processor() -> str | None:
    """Which processors code has to be compiled for to run here, as LLVM names them; None where there are no images."""
    if os.environ.get(_VARIABLE) == _OFF:
        return None
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return None
    try:
        with Path("/proc/cpuinfo").open() as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        flags = ""
    return _MODERN if _MODERN_FLAGS.issubset(flags.split()) else "x86-64"


def find_image(package: Path) -> Any | None:
    """The functions of a package of kernels from an image that fits its sources and this machine, if there is one."""
    for path in image_places(package) if processor() is not None else ():
        with suppress(OSError, ImageError):
            return mapped(path)
    return None


def image_places(package: Path) -> Iterator[Path]:
    """Where the image of a package may be."""
    name = f"{processor()}-{fingerprint(package):08x}.image"
    if chosen := os.environ.get(_VARIABLE):
        yield Path(chosen) / name
        return
    yield package / name
    yield cache_folder() / name


def cache_folder() -> Path:
    """Where things are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "formatkit"


def fingerprint(package: Path) -> int:
    """Tells the sources apart that make a difference to what is compiled."""
    compiler = (Path(__file__).parent / name for name in _COMPILER)
    found = 0
    for source in (*compiler, *sorted(package.glob("*.py"))):
        found = zlib.crc32(source.read_bytes(), found)
    return found


def mapped(path: Path) -> Any:
    """The functions of an image, by their names."""
    with path.open("rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
        except ValueError as error:
            raise ImageError("an empty file is no image") from error
    # Nobody unmaps it: functions can be called as long as the process lives.
    _kept.append(mapped)
    end = mapped.find(b"\n", len(_MAGIC))
    if mapped[: len(_MAGIC)] != _MAGIC or end < 0:
        raise ImageError(f"{path} is no image")
    described = json.loads(mapped[len(_MAGIC) : end])
    start = end + 1 + -(end + 1) % _PAGE
    if zlib.crc32(memoryview(mapped)[start : start + described["size"]]) != described["crc"]:
        raise ImageError(f"{path} is damaged")
    address = np.frombuffer(mapped, np.uint8).ctypes.data + start
    number = ctypes.c_int64
    calls = {
        name: ctypes.CFUNCTYPE(number, *[number] * arguments)(address + offset)
        for name, (offset, arguments) in described["calls"].items()
    }
    return SimpleNamespace(**calls)


_kept: list[mmap.mmap] = []
