"""Images: files of compiled code that are loaded into memory and called, without whatever compiled them.

Importing numba takes longer than decoding 100 MB, and as much memory. So code is compiled when formatkit is installed.
An image lies beside the sources it was made of, or in the user's cache folder, and its name tells what these were and
which processors it is for.

An image is code that runs with the rights of the process, so it is trusted like a module of Python: only if nobody but
the user and root could have written it. Its bytes are read once, checked under one checksum, and copied to memory of
the process, so that what was checked is what is called.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = [
    "Image",
    "ImageError",
    "belongs_to_us",
    "cache_folder",
    "find_image",
    "fingerprint",
    "image_places",
    "processor",
]

_MAGIC = b"formatkit image 2\n"
_MAX_BYTES = 64 * 1024 * 1024
_MAX_ARGUMENTS = 64
_COMPILER = ("arrays.py", "building.py", "language.py", "linking.py")
"""The sources of this package that make a difference to what kernels are compiled to."""

_VARIABLE, _OFF = "FORMATKIT_IMAGES", "off"
"""The folder where images are looked for and kept, instead of the usual places; or that there are to be none."""

_MODERN = "x86-64-v3"
_MODERN_FLAGS = {"abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}


class ImageError(Exception):
    """An image cannot be used. The message says why."""


@dataclass(frozen=True)
class Image:
    """Compiled code.

    Attributes:
        calls: Where each function begins in the code, and how many arguments it has.
        code: The instructions and constants.
        compiler: What compiled it, with versions.
    """

    calls: Mapping[str, tuple[int, int]]
    code: bytes
    compiler: str

    def to_bytes(self, name: str) -> bytes:
        """The content of the file `name`: lines with the format, a checksum of the rest and JSON, then the code."""
        header = {"name": name, "compiler": self.compiler, "calls": self.calls, "size": len(self.code)}
        rest = json.dumps(header).encode() + b"\n" + self.code
        return _MAGIC + _checksum(rest) + rest

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Image:
        """Raises `ImageError` if it is not whole, contradicts itself or was made under another name."""
        start = len(_MAGIC) + len(_checksum(b""))
        rest = content[start:]
        if content[: len(_MAGIC)] != _MAGIC:
            raise ImageError("it is no image, or one of another release")
        if content[len(_MAGIC) : start] != _checksum(rest):
            raise ImageError("it is damaged: its checksum does not fit its bytes")
        line, _, code = rest.partition(b"\n")
        try:
            header = json.loads(line)
            calls = {call: (int(offset), int(count)) for call, (offset, count) in header["calls"].items()}
            image = cls(calls=calls, code=code, compiler=str(header["compiler"]))
            made_as, size = header["name"], header["size"]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ImageError(f"its header cannot be read: {error}") from error
        if made_as != name:
            raise ImageError(f"it was made as {made_as!r}: for other sources or processors")
        if size != len(code) or not all(_is_inside(*call, code) for call in calls.values()):
            raise ImageError("its header does not fit its code")
        return image

    def functions(self) -> Any:
        """The functions, by their names. Raises `ImageError` if the system does not let the process run them."""
        address = _executable(self.code)
        number = ctypes.c_int64
        calls = {
            name: ctypes.CFUNCTYPE(number, *[number] * arguments)(address + offset)
            for name, (offset, arguments) in self.calls.items()
        }
        return SimpleNamespace(**calls)


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode() + b"\n"


def _is_inside(offset: int, arguments: int, code: bytes) -> bool:
    return 0 <= offset < len(code) and 0 <= arguments <= _MAX_ARGUMENTS


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


def find_image(package: Path) -> tuple[Any | None, str]:
    """The functions of a package of kernels from an image that fits its sources and this machine, if there is one.

    The second result says what is wrong with the images that were found and not used.
    """
    refused = []
    try:
        for path in image_places(package) if processor() is not None else ():
            try:
                return Image.from_bytes(_read(path), path.name).functions(), ""
            except FileNotFoundError:
                continue
            except (OSError, ImageError) as error:
                refused.append(f"{path}: {error}")
    except (OSError, RuntimeError) as error:
        # Sources that cannot be read, or no home folder.
        refused.append(f"{package}: {error}")
    return None, "; ".join(refused)


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
    compiler = (_folder(Path(__file__).parent) / name for name in _COMPILER)
    kernels = (source for source in _folder(package).iterdir() if source.name.endswith(".py"))
    found = 0
    for source in (*compiler, *sorted(kernels, key=lambda source: source.name)):
        found = zlib.crc32(source.read_bytes(), found)
    return found


def _folder(path: Path) -> Traversable:
    """A folder, which may be inside an archive from which Python imports: Spark's ``--py-files`` are such."""
    archive = _archive_of(path)
    return path if archive is None else zipfile.Path(str(archive), f"{path.relative_to(archive).as_posix()}/")


def _archive_of(path: Path) -> Path | None:
    return None if path.exists() else next((parent for parent in path.parents if parent.is_file()), None)


def belongs_to_us(found: os.stat_result) -> bool:
    """Whether a file or folder is the user's or root's, and nobody else can write to it."""
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> bytes:
    """The bytes of a file, which may be in an archive, that nobody else can have written."""
    archive = _archive_of(path)
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    with os.fdopen(os.open(archive or path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ImageError("it is no regular file")
        if not belongs_to_us(found):
            raise ImageError(
                f"user {found.st_uid} owns it and its mode is {stat.S_IMODE(found.st_mode):o}, but an image has to "
                f"belong to user {os.geteuid()} or root, and nobody else may write to it (chmod go-w)"
            )
        if archive is not None:
            return _unpacked(file, path.relative_to(archive).as_posix())
        _check_size(found.st_size)
        # A read of all that is allowed asks for as much memory at first. What is decoded later takes a tenth less time
        # after that (`python -m benchmarks.turns`, Avro); workers of Spark may be under a limit that forbids it. What
        # grows meanwhile has another checksum.
        return file.read(found.st_size if _has_limited_memory() else _MAX_BYTES)


def _has_limited_memory() -> bool:
    import resource  # not on Windows, where there are no images

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit != resource.RLIM_INFINITY


def _unpacked(archive: BinaryIO, name: str) -> bytes:
    """Raises `FileNotFoundError` if an archive has no file of this name."""
    try:
        with zipfile.ZipFile(archive) as opened:
            _check_size(opened.getinfo(name).file_size)
            return opened.read(name)
    except KeyError:
        raise FileNotFoundError(name) from None
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ImageError(f"the archive that it is in is damaged: {error}") from error


def _check_size(size: int) -> None:
    if size > _MAX_BYTES:
        raise ImageError(f"it has more than {_MAX_BYTES} bytes")


def _executable(code: bytes) -> int:
    """Copy code to memory of this process that can be executed and no longer be written; returns its address."""
    try:
        memory = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if protect(address, len(code), mmap.PROT_READ | mmap.PROT_EXEC):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    except (OSError, ValueError, AttributeError, MemoryError) as error:
        raise ImageError(f"the system does not make memory executable: {error}") from error
    # Nobody unmaps it: functions can be called as long as the process lives.
    _kept.append(memory)
    return address


_kept: list[mmap.mmap] = []
