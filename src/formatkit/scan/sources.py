"""Opens the files of a scan, here or in another process."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyiceberg.io import FileIO

from formatkit.contract.storage import ByteSource
from formatkit.errors import PluginLoadError, UnsupportedError
from formatkit.io import InputLocation, IoRuntime, RuntimeFileIO, open_source
from formatkit.io.pyiceberg.trust import import_named
from formatkit.scan.tasks import DeleteFile, FileTask

__all__ = ["OneFile", "TableFiles"]


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Opens the files of a table through its `FileIO`.

    What travels is the class of the `FileIO` and its properties. Each process builds one of them once; what the
    properties leave open, such as credentials, it finds in its own environment. Another process reads on the IO runtime
    that is the current one there.
    """

    io: FileIO
    runtime: IoRuntime | None = None

    def __call__(self, file: FileTask | DeleteFile) -> ByteSource:
        return open_source(file.location, self.io, file.size_bytes, self.runtime)

    def __reduce__(self) -> tuple[Any, ...]:
        implementation = type(self.io)
        name = f"{implementation.__module__}:{implementation.__qualname__}"
        if "<locals>" in name or implementation.__module__ == "__main__":
            message = f"{name} cannot be imported by another process; put the class of this FileIO into a module"
            raise UnsupportedError(message)
        if isinstance(self.io, RuntimeFileIO):
            self.io.check()
        return _rebuild, (name, dict(self.io.properties))


@dataclass(frozen=True, slots=True)
class OneFile:
    """Opens the one file of a scan that has no table."""

    given: InputLocation
    runtime: IoRuntime | None = None

    def __call__(self, file: FileTask | DeleteFile) -> ByteSource:
        return open_source(self.given, size=file.size_bytes, runtime=self.runtime)

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self.given, str | os.PathLike):
            message = f"another process cannot open this {type(self.given).__name__}; give the file's location"
            raise UnsupportedError(message)
        return OneFile, (os.fspath(self.given),)


def _rebuild(implementation: str, properties: Mapping[str, str]) -> TableFiles:
    return TableFiles(_file_io(implementation, tuple(sorted(properties.items()))))


@lru_cache(maxsize=64)
def _file_io(implementation: str, properties: tuple[tuple[str, str], ...]) -> FileIO:
    module, _, name = implementation.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        message = f"the table's FileIO is {implementation}, which this process cannot import: {error}"
        raise PluginLoadError(message) from error
    import_named(dict(properties))
    made: FileIO = found(dict(properties))
    return made
