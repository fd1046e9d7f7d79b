"""Opens files of a table. The lengths that the table's metadata says may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from formatkit.contract.format import FormatFile, FormatReader
from formatkit.contract.options import OpenOptions, Split
from formatkit.contract.storage import ByteSource
from formatkit.errors import ConfigurationError, CorruptFileError, UnsupportedError
from formatkit.scan.tasks import DeleteFile, FileTask

__all__ = ["open_file", "open_whole", "part_of"]

B = TypeVar("B")
T = TypeVar("T")

_OpenSource = Callable[[FileTask | DeleteFile], ByteSource]


def open_file(
    reader: FormatReader[B], file: FileTask | DeleteFile, open_source: _OpenSource, options: OpenOptions
) -> tuple[ByteSource, FormatFile[B]]:
    """Open a file, and its bytes, both for the caller to close.

    The storage is asked for the length only if the file cannot be opened with the one that metadata says. Another
    length is believed if the file then tells as many rows as metadata does, so that none can be missing. Of delete
    files that do not tell their rows the storage is always asked, because no row would be missed.

    Raises:
        UnsupportedError: The file is encrypted.
    """
    source = open_source(file)
    try:
        opened = reader.open(source, options)
        if isinstance(file, DeleteFile) and opened.row_count is None and (size := _own_length(file, open_source)):
            opened.close()
            source.close()
            source = open_source(FileTask(location=file.location, file_format=file.file_format, size_bytes=size))
            opened = reader.open(source, options)
        return source, opened
    except (CorruptFileError, ConfigurationError) as error:
        source.close()
        found = _open_by_its_own_length(reader, file, open_source, options)
        if found is None:
            _refuse_encrypted(file, error)
            raise
        return found
    except BaseException:
        source.close()
        raise


def open_whole(file: DeleteFile, open_source: _OpenSource, read: Callable[[ByteSource], T]) -> T:
    """What `read` finds in a file, by its own length if metadata says another one.

    Raises:
        UnsupportedError: The file is encrypted.
    """
    try:
        with closing(open_source(file)) as source:
            return read(source)
    except CorruptFileError as error:
        if _own_length(file, open_source) is None:
            _refuse_encrypted(file, error)
            raise
    with closing(open_source(FileTask(location=file.location, file_format=file.file_format))) as source:
        return read(source)


def part_of(task: FileTask, size: int) -> Split | None:
    """What a task reads of a file that has this length: the last part of a file ends where the file does."""
    split = task.split
    if split is None or task.size_bytes in (None, size) or split.end != task.size_bytes or split.start >= size:
        return split
    return Split(split.start, size - split.start)


def _refuse_encrypted(file: FileTask | DeleteFile, error: Exception) -> None:
    """Tell encryption from damage: a file for which the table has a key may be readable without it."""
    if file.has_key:
        message = f"{file.location} is encrypted; reading encrypted tables is not supported"
        raise UnsupportedError(message, location=file.location) from error


def _own_length(file: FileTask | DeleteFile, open_source: _OpenSource) -> int | None:
    """The length of a file, if metadata says another one."""
    with closing(open_source(FileTask(location=file.location, file_format=file.file_format))) as source:
        size = source.size()
    return None if size == file.size_bytes else size


def _open_by_its_own_length(
    reader: FormatReader[B], file: FileTask | DeleteFile, open_source: _OpenSource, options: OpenOptions
) -> tuple[ByteSource, FormatFile[B]] | None:
    if file.size_bytes is None or file.row_count is None:
        return None
    source = open_source(FileTask(location=file.location, file_format=file.file_format))
    try:
        if source.size() != file.size_bytes:
            opened = reader.open(source, options)
            if opened.row_count == file.row_count or (opened.row_count is None and isinstance(file, DeleteFile)):
                return source, opened
            opened.close()
    except (CorruptFileError, ConfigurationError):
        # What was wrong with the length that was expected tells more.
        pass
    except BaseException:
        source.close()
        raise
    source.close()
    return None
