"""Makes pyarrow check a footer before its parts are looked at.

What the footer says about column chunks is checked only when a chunk is looked at, and pyarrow's accessors end the
process if it is wrong. The same checks run with errors as errors when a read of all chunks is planned, so one is
planned, on a file that has no bytes to read.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.formats.parquet.failures import reading

__all__ = ["check_column_chunks"]


class _NoBytes(io.RawIOBase):
    """A file with a length and no content."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = 0
        self.was_read = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        # No exception: pyarrow would keep it for good, and with it the frames of all callers and what they hold.
        self.was_read = True
        return b""


def check_column_chunks(metadata: pq.FileMetaData, file_size: int, location: str) -> None:
    """Raise `CorruptFileError` if the footer describes a column chunk that cannot be."""
    row_groups, leaves = list(range(metadata.num_row_groups)), list(range(metadata.num_columns))
    if not row_groups or not leaves:
        return
    content = _NoBytes(file_size)
    with reading(location), pa.PythonFile(content, "r") as file:
        # Planned reads are buffered ahead, which is what looks at every chunk.
        reader = pq.ParquetFile(file, metadata=metadata, pre_buffer=True).reader
        try:
            next(reader.iter_batches(1, row_groups, leaves, use_threads=False), None)
        except (pa.ArrowException, OSError):
            # Once the first byte is asked for, the plan is complete.
            if not content.was_read:
                raise
