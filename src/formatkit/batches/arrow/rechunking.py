"""Batches of another size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

__all__ = ["rechunked"]


def rechunked(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `rows` rows; the last one may be shorter."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        if count >= rows:
            joined = _joined(pending)
            whole = count - count % rows
            yield from (joined.slice(start, rows) for start in range(0, whole, rows))
            pending, count = ([joined.slice(whole)], count - whole) if count > whole else ([], 0)
    if count:
        yield _joined(pending)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)  # type: ignore[attr-defined]  # the stubs lack it
