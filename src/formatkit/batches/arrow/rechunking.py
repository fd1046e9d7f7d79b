"""Batches of another size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

__all__ = ["is_overflow", "rechunked"]

_MOST_BYTES = 1 << 30
"""What is longer is not joined: offsets of 32 bits would not reach the end of texts."""

_OVERFLOWS = ("offset overflow", "overflowed binary array")


def rechunked(batches: Iterable[pa.RecordBatch], rows: int, *, exactly: bool = False) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `rows` rows; the last one may be shorter.

    Args:
        batches: The rows.
        rows: How many rows each batch is to have.
        exactly: Whether batches of very long rows may not have fewer. What does not fit into one raises `ArrowInvalid`.
    """
    pending: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if pending and not exactly and size + batch.nbytes > _MOST_BYTES:
            yield _joined(pending)
            pending, count, size = [], 0, 0
        pending.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count >= rows:
            joined = _joined(pending)
            whole = count - count % rows
            yield from (joined.slice(start, rows) for start in range(0, whole, rows))
            rest = joined.slice(whole)
            pending, count, size = ([rest], count - whole, rest.nbytes) if count > whole else ([], 0, 0)
    if count:
        yield _joined(pending)


def is_overflow(error: pa.ArrowException) -> bool:
    """Whether Arrow says that texts are too long for one array."""
    return isinstance(error, pa.ArrowCapacityError) or any(sign in str(error) for sign in _OVERFLOWS)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)  # type: ignore[attr-defined]  # the stubs lack it
