"""Avro for Arrow batches, as the entry point names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from formatkit.contract.capability import Capability
from formatkit.forks import imported
from formatkit.formats.avro.container import MAGIC
from formatkit.formats.avro.reader import AvroReader

if TYPE_CHECKING:
    from formatkit.formats.avro.writer import AvroWriter

__all__ = ["AvroFormat"]


class AvroFormat:
    """Apache Avro object container files.

    Unions of several types are structs of their branches. Columns of types outside Iceberg's, such as records that
    hold themselves, are passed over and listed in `FormatFile.unreadable`; the columns beside them are read.
    """

    file_format = "avro"
    batch_type = pa.RecordBatch
    capabilities = frozenset(
        {
            Capability.SPLIT,
            Capability.FIELD_IDS,
            Capability.FILE_METADATA,
            Capability.ENCRYPTION,
            Capability.NANOSECONDS,
            Capability.VARIANT,
        }
    )
    extensions = (".avro",)
    magic = MAGIC

    def reader(self) -> AvroReader:
        return AvroReader()

    def writer(self) -> AvroWriter:
        # Loading what writes, pyarrow.compute among it, takes longer than reading a small file.
        writer: AvroWriter = imported("formatkit.formats.avro.writer").AvroWriter()
        return writer
