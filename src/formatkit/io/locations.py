"""Tells local files from the rest, and opens both."""

from __future__ import annotations

import os
import re
import warnings
from urllib.parse import unquote

import pyarrow as pa
from pyiceberg.io import FileIO, InputFile, OutputFile, load_file_io

from formatkit.contract.storage import ByteSink, ByteSource
from formatkit.errors import ConfigurationError
from formatkit.io.failures import storage_failures, timeout_of
from formatkit.io.fileio import FileIOSink, FileIOSource
from formatkit.io.local import LocalSink, LocalSource
from formatkit.io.memory import MemorySource
from formatkit.io.routed_sink import RoutedSink
from formatkit.io.runtime import IoRuntime, current_runtime
from formatkit.io.wrapping import file_io_behind, input_behind, output_behind

__all__ = ["InputLocation", "OutputLocation", "local_path", "open_sink", "open_source"]

InputLocation = str | os.PathLike[str] | InputFile | ByteSource | bytes | bytearray | memoryview | pa.Buffer
OutputLocation = str | os.PathLike[str] | OutputFile | ByteSink

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def local_path(location: str) -> str | None:
    """The path that a location means, or None if it is not local.

    Iceberg does not decode percent signs: a partition folder ``a%2Fb`` is called just that on disk and in the URI.
    Other tools do encode when they make URIs, so a name that does not exist as spelled is tried decoded.
    """
    scheme = _SCHEME.match(location)
    if scheme is None:
        return location
    if scheme.group(1).lower() != "file":
        # A scheme is followed by slashes; `2024:report.parquet` and `a:b` are file names.
        return None if location.startswith("//", scheme.end()) else location
    path = location[scheme.end() :]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        path = slash + rest
        if host not in ("", "localhost"):
            # pyiceberg writes relative paths so.
            path = host + path
            if not os.path.lexists(path):
                message = (
                    f"{location} names the host {host!r}, and there is no {path} in the working directory; "
                    "a local file is file:///path or file:/path"
                )
                raise ConfigurationError(message)
    decoded = unquote(path)
    if decoded != path and not os.path.lexists(path) and os.path.lexists(decoded):
        return decoded
    return path


def open_source(
    location: InputLocation, io: FileIO | None = None, size: int | None = None, runtime: IoRuntime | None = None
) -> ByteSource:
    """The bytes at a location. Nothing is read yet, so a missing file shows at the first read.

    Args:
        location: A path, a URI, a pyiceberg `InputFile`, bytes, or a source, which is returned as it is.
        io: Where to look up locations that are not local; made from the location's scheme if left out.
        size: The length of the file if it is known, which saves asking the storage.
        runtime: Where storage calls run; the current runtime of this thread if left out.
    """
    if isinstance(location, (bytes, bytearray, memoryview, pa.Buffer)):
        return MemorySource(location)
    if isinstance(location, InputFile):
        location = input_behind(location)
        path = local_path(location.location) if _is_pyicebergs_own(location) else None
        if path is not None:
            return LocalSource(path, location=location.location, size=size, runtime=runtime)
        timeout = None if io is None else timeout_of(io.properties)
        return FileIOSource(location, size=size, runtime=runtime, timeout=timeout)
    # Asking whether something is a source takes longer than opening a file.
    if not isinstance(location, (str, os.PathLike)) and isinstance(location, ByteSource):
        return location
    text = os.fspath(location)
    io = None if io is None else file_io_behind(io, text)
    path = text if isinstance(location, os.PathLike) else local_path(text)
    if path is not None and (io is None or _is_pyicebergs_own(io)):
        return LocalSource(path, location=text, size=size, runtime=runtime)
    runtime = runtime or current_runtime()
    timeout = None if io is None else timeout_of(io.properties)

    def new_input() -> InputFile:
        with storage_failures(text, "open"):
            return (io or _io_for(text)).new_input(text)

    # Some implementations look for their server here.
    file = runtime.run(new_input, timeout=timeout)
    return FileIOSource(file, size=size, runtime=runtime, timeout=timeout)


def open_sink(location: OutputLocation, io: FileIO | None = None, runtime: IoRuntime | None = None) -> ByteSink:
    """The place at a location; nothing is created yet.

    Args:
        location: A path, a URI, a pyiceberg `OutputFile`, or a sink, which is returned as it is.
        io: Where to look up locations that are not local; made from the location's scheme if left out.
        runtime: Where storage calls run; the current runtime of this thread if left out.
    """
    # An `OutputFile` has the names of a sink, though with other meanings, so it must be told first.
    if isinstance(location, OutputFile) or not isinstance(location, ByteSink):
        runtime, timeout = runtime or current_runtime(), None if io is None else timeout_of(io.properties)
        backend: ByteSink | None = _local_sink(location, io)
        if backend is None:
            # Some implementations look for their server here.
            backend = runtime.run(lambda: _file_io_sink(location, io), timeout=timeout)
        return RoutedSink(backend, runtime, timeout)
    return location


def _local_sink(location: str | os.PathLike[str] | OutputFile, io: FileIO | None) -> LocalSink | None:
    if isinstance(location, OutputFile):
        location = output_behind(location)
        path = local_path(location.location) if _is_pyicebergs_own(location) else None
        return None if path is None else LocalSink(path, location=location.location)
    text = os.fspath(location)
    io = None if io is None else file_io_behind(io, text)
    path = text if isinstance(location, os.PathLike) else local_path(text)
    if path is not None and (io is None or _is_pyicebergs_own(io)):
        return LocalSink(path, location=text)
    return None


def _file_io_sink(location: str | os.PathLike[str] | OutputFile, io: FileIO | None) -> FileIOSink:
    if isinstance(location, OutputFile):
        location = output_behind(location)
        return FileIOSink(location, io=io or _io_for(location.location))
    text = os.fspath(location)
    with storage_failures(text, "open"):
        io = _io_for(text) if io is None else file_io_behind(io, text)
        return FileIOSink(io.new_output(text), io=io)


def _is_pyicebergs_own(thing: FileIO | InputFile | OutputFile) -> bool:
    """Whether local locations mean local files to it; a stranger's implementation may encrypt, cache or count."""
    return type(thing).__module__ in ("pyiceberg.io.pyarrow", "pyiceberg.io.fsspec")


def _io_for(location: str) -> FileIO:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No preferred file implementation")
        return load_file_io(location=location)
