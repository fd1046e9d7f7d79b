"""Arrow IPC files in memory, made by pyarrow, and short ways to read them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import OpenOptions, ReadOptions, WriteOptions, WriteResult
from formatkit.formats.arrow.reader import ArrowDataFile, ArrowReader
from formatkit.formats.arrow.writer import ArrowWriter
from formatkit.io import MemorySink, MemorySource

__all__ = ["LAYOUTS", "foreign", "opened", "rows_of", "written"]

LAYOUTS = ("file", "stream")


def foreign(batches: Sequence[pa.RecordBatch], layout: str = "file", **options: Any) -> bytes:
    """The bytes of a file as pyarrow alone writes it."""
    output = io.BytesIO()
    new_writer: Any = ipc.new_file if layout == "file" else ipc.new_stream
    with new_writer(output, batches[0].schema, options=ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return output.getvalue()


def written(schema: Schema, batches: Sequence[pa.RecordBatch], **options: Any) -> tuple[bytes, WriteResult]:
    """The bytes of a file as formatkit writes it, and what the writer reports."""
    sink = MemorySink()
    with ArrowWriter().open(sink, WriteOptions(schema=schema, **options)) as writer:
        for batch in batches:
            writer.write(batch)
        result = writer.close()
    assert result is not None
    assert sink.data is not None
    return sink.data, result


def opened(data: bytes) -> ArrowDataFile:
    return ArrowReader().open(MemorySource(data), OpenOptions())


def rows_of(file: ArrowDataFile, **options: Any) -> list[tuple[Any, ...]]:
    """The rows as Python's values."""
    asked = ReadOptions(**{"projection": file.schema, **options})
    with file.read(asked).batches as batches:
        return [row for batch in batches for row in ArrowBatch().rows(asked.projection, batch)]
