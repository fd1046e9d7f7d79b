"""Arrow data from anywhere, as a stream of batches of bounded size."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa

from formatkit.contract import DEFAULT_BATCH_ROWS
from formatkit.errors import ConfigurationError

__all__ = ["ArrowData", "incoming_batches"]

ArrowData = Any
"""A `pa.RecordBatch`, `pa.Table`, `pa.RecordBatchReader`, an object with the Arrow PyCapsule interface (a Polars,
pandas or DuckDB frame, a scan), or an iterable of these."""


def incoming_batches(data: ArrowData) -> Generator[pa.RecordBatch, None, None]:
    """The rows in their order. Data without rows gives one empty batch if its schema is known.

    Closing the generator releases what the data holds.
    """
    if isinstance(data, pa.RecordBatch):
        yield from _bounded(data)
    elif isinstance(data, pa.Table):
        yield from data.to_batches(max_chunksize=DEFAULT_BATCH_ROWS) or _no_rows(data.schema)
    elif isinstance(data, pa.RecordBatchReader):
        yield from _read(data)
    elif hasattr(data, "__arrow_c_stream__"):
        with pa.RecordBatchReader.from_stream(data) as reader:
            yield from _read(reader)
    elif hasattr(data, "__arrow_c_array__"):
        yield from _bounded(pa.record_batch(data))
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)):
        for part in data:
            if isinstance(part, Iterable) and not _is_arrow(part):
                raise _not_arrow(part)
            yield from incoming_batches(part)
    else:
        raise _not_arrow(data)


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    empty = True
    for batch in reader:
        empty = False
        yield from _bounded(batch)
    if empty:
        yield from _no_rows(reader.schema)


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A producer may hand out everything as one batch, which canonical forms could be too small for."""
    for start in range(0, max(batch.num_rows, 1), DEFAULT_BATCH_ROWS):
        yield batch.slice(start, DEFAULT_BATCH_ROWS)


def _no_rows(schema: pa.Schema) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)]


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _not_arrow(data: Any) -> ConfigurationError:
    return ConfigurationError(
        f"cannot write {type(data).__module__}.{type(data).__qualname__}; give Arrow data: a RecordBatch, a Table, a "
        "RecordBatchReader, anything with __arrow_c_stream__ (Polars, pandas, DuckDB), or an iterable of these"
    )
