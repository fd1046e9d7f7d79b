"""Arrow IPC for Arrow batches, as the entry point names it."""

from __future__ import annotations

import pyarrow as pa

from formatkit.contract.capability import Capability
from formatkit.formats.arrow.reader import ArrowReader
from formatkit.formats.arrow.writer import ArrowWriter

__all__ = ["ArrowFormat"]


class ArrowFormat:
    """Arrow's own bytes on disk, in either layout: the file, which has a footer, and the stream, which has none."""

    file_format = "arrow"
    batch_type = pa.RecordBatch
    capabilities = frozenset(
        {
            Capability.SPLIT,
            Capability.FIELD_IDS,
            Capability.FILE_METADATA,
            Capability.DICTIONARY,
            Capability.NANOSECONDS,
            Capability.VARIANT,
        }
    )
    extensions = (".arrow", ".arrows", ".feather", ".ipc")
    magic = b"ARROW1"

    def reader(self) -> ArrowReader:
        return ArrowReader()

    def writer(self) -> ArrowWriter:
        return ArrowWriter()
