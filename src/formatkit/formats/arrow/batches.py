"""Record batches of files that nobody vouches for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.ipc as ipc

from formatkit.batches.arrow.file_reading import decoding
from formatkit.contract.file_end import FileEnd
from formatkit.contract.storage import ByteSource
from formatkit.errors import CorruptFileError, asked_bytes

__all__ = ["opened", "read_options", "validated"]

T = TypeVar("T")

_MAX_RATIO = 32 * 1024
"""Of Arrow's codecs zstd compresses most: 4 bytes stand for a block of 128 KiB at best."""


@contextmanager
def opened(source: ByteSource, end: FileEnd | None = None) -> Iterator[Any]:
    """The source as a file object for pyarrow, whose complaints then name the file.

    Args:
        source: The file.
        end: Its end, if it was read already.
    """
    with decoding(source.location, "Arrow"), closing(source.open()) as file:
        watched = _Watched(file, end)
        try:
            # pyarrow reads its own files without Python, which has nothing to tell then.
            yield file if _is_native(file) else watched
        except (pa.ArrowException, OSError) as error:
            # A storage that fails in the midst of a message is to pyarrow a message that is broken.
            if watched.failure is not None:
                raise watched.failure from error
            if isinstance(error, MemoryError) and (asked := asked_bytes(error) or 0) > _MAX_RATIO * source.size():
                message = f"{source.location}: is a corrupt Arrow file: a buffer claims {asked} bytes"
                raise CorruptFileError(message, location=source.location) from error
            raise


def _is_native(file: object) -> bool:
    return isinstance(file, pa.NativeFile)


class _Watched:
    """A file object that remembers why a read of it failed, and does not read its end again."""

    def __init__(self, file: BinaryIO, end: FileEnd | None) -> None:
        self._file = file
        self._end = end
        self.failure: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        return self._remembering(self._file.read, size)

    def read_buffer(self, size: int = -1) -> pa.Buffer:
        """What pyarrow prefers to `read`, because it needs no copy."""
        position = self._file.tell()
        if self._end is not None and self._end.start <= position:
            length = min(size, self._end.size() - position)
            self._file.seek(position + length)
            return pa.py_buffer(self._end.read(position, length))
        read_buffer: Callable[[int], pa.Buffer] | None = getattr(self._file, "read_buffer", None)
        return pa.py_buffer(self.read(size)) if read_buffer is None else self._remembering(read_buffer, size)

    def _remembering(self, read: Callable[[int], T], size: int) -> T:
        try:
            return read(size)
        except Exception as error:
            self.failure = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def read_options(columns: Sequence[int], stored: int) -> ipc.IpcReadOptions:
    """Decode these top-level columns of those that are stored. Scans use threads by reading several splits at once."""
    return ipc.IpcReadOptions(  # type: ignore[call-arg]  # the stubs lack alignment
        # To read all of them it takes one piece of the file and not many.
        included_fields=None if list(columns) == list(range(stored)) else list(columns),
        use_threads=False,
        ensure_alignment=ipc.Alignment.DataTypeSpecific,  # type: ignore[attr-defined]
    )


def validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, if no offset or index in it leads outside its buffers: Arrow's kernels trust them blindly."""
    batch.validate(full=True)
    return batch
