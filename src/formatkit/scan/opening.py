"""Opens files of a table. The lengths that the table's metadata says may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from formatkit.contract.format import FormatFile, FormatReader
from formatkit.contract.options import OpenOptions, Split
from formatkit.contract.storage import ByteSource
from formatkit.errors import CorruptFileError
from formatkit.scan.tasks import DeleteFile, FileTask

__all__ = ["open_file", "part_of"]

B = TypeVar("B")


def open_file(
    reader: FormatReader[B],
    file: FileTask | DeleteFile,
    open_source: Callable[[FileTask | DeleteFile], ByteSource],
    options: OpenOptions,
) -> tuple[ByteSource, FormatFile[B]]:
    """Open a file, and its bytes, both for the caller to close.

    The storage is asked for the length only if the file cannot be opened with the one that metadata says. Another
    length is believed if the file then tells as many rows as metadata does, so that none can be missing.
    """
    source = open_source(file)
    try:
        return source, reader.open(source, options)
    except CorruptFileError:
        source.close()
        found = _open_by_its_own_length(reader, file, open_source, options)
        if found is None:
            raise
        return found
    except BaseException:
        source.close()
        raise


def part_of(task: FileTask, size: int) -> Split | None:
    """What a task reads of a file that has this length: the last part of a file ends where the file does."""
    split = task.split
    if split is None or task.size_bytes in (None, size) or split.end != task.size_bytes or split.start >= size:
        return split
    return Split(split.start, size - split.start)


def _open_by_its_own_length(
    reader: FormatReader[B],
    file: FileTask | DeleteFile,
    open_source: Callable[[FileTask | DeleteFile], ByteSource],
    options: OpenOptions,
) -> tuple[ByteSource, FormatFile[B]] | None:
    if file.size_bytes is None or file.row_count is None:
        return None
    source = open_source(FileTask(location=file.location, file_format=file.file_format))
    try:
        if source.size() != file.size_bytes:
            opened = reader.open(source, options)
            if opened.row_count == file.row_count:
                return source, opened
            opened.close()
    except CorruptFileError:
        # What was wrong with the length that was expected tells more.
        pass
    except BaseException:
        source.close()
        raise
    source.close()
    return None
