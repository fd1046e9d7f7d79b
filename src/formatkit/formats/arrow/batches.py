"""Record batches of files that nobody vouches for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from formatkit.batches.arrow.file_reading import decoding
from formatkit.contract.storage import ByteSource

__all__ = ["opened", "read_options", "validated"]


@contextmanager
def opened(source: ByteSource) -> Iterator[Any]:
    """The source as a file object for pyarrow, whose complaints then name the file."""
    with decoding(source.location, "Arrow"), closing(source.open()) as file:
        yield file


def read_options(columns: Sequence[int]) -> ipc.IpcReadOptions:
    """Decode these top-level columns only. Scans use threads by reading several splits at once."""
    return ipc.IpcReadOptions(  # type: ignore[call-arg]  # the stubs lack alignment
        included_fields=list(columns),
        use_threads=False,
        ensure_alignment=ipc.Alignment.DataTypeSpecific,  # type: ignore[attr-defined]
    )


def validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, if no offset or index in it leads outside its buffers: Arrow's kernels trust them blindly."""
    batch.validate(full=True)
    return batch
