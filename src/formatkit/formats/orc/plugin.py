"""ORC for Arrow batches, as the entry point names it."""

from __future__ import annotations

import pyarrow as pa

from formatkit.contract.capability import Capability
from formatkit.formats.orc.reader import OrcReader
from formatkit.formats.orc.writer import OrcWriter

__all__ = ["OrcFormat"]


class OrcFormat:
    """Apache ORC, decoded and encoded by pyarrow."""

    file_format = "orc"
    batch_type = pa.RecordBatch
    capabilities = frozenset(
        {
            Capability.SKIP_CHUNKS,
            Capability.FILTER_ROWS,
            Capability.SPLIT,
            Capability.FIELD_IDS,
            Capability.FILE_METADATA,
            Capability.COLUMN_SIZES,
            Capability.NANOSECONDS,
            Capability.VARIANT,
        }
    )
    extensions = (".orc",)
    magic = b"ORC"

    def reader(self) -> OrcReader:
        return OrcReader()

    def writer(self) -> OrcWriter:
        return OrcWriter()
