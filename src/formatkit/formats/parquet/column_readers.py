"""Readers of the same rows, each of some of the columns, as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa

from formatkit.formats.parquet.flat_reader import FlatReader
from formatkit.formats.parquet.read.page_check import CheckedReader

__all__ = ["LeafReader", "decode_in_step"]


class LeafReader(NamedTuple):
    """A reader, and the leaves that are read with it."""

    reader: CheckedReader | FlatReader
    leaves: list[int]


def decode_in_step(
    readers: Sequence[LeafReader], columns: Sequence[Sequence[int]], row_groups: list[int], batch_rows: int
) -> Iterator[tuple[list[pa.Array[Any]], int]]:
    """Decoded columns, and how many rows they have. Ends where one of the readers ends.

    Args:
        readers: All leaves of a column are read with the same one.
        columns: The leaves of each column, in the order wanted.
        row_groups: Which ones, by index.
        batch_rows: The most rows at once.
    """
    reader_of = {leaf: number for number, (_, leaves) in enumerate(readers) for leaf in leaves}
    places = [count() for _ in readers]
    order = [(reader_of[leaves[0]], next(places[reader_of[leaves[0]]])) for leaves in columns]
    # With Arrow's threads a damaged page would make it wait for ever.
    streams = [reader.iter_batches(batch_rows, row_groups, leaves, use_threads=False) for reader, leaves in readers]
    for batches in _in_step(streams):
        decoded = [batch.columns for batch in batches]
        yield [decoded[reader][place] for reader, place in order], batches[0].num_rows


def _in_step(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[Sequence[pa.RecordBatch]]:
    """Batches of the same rows. Streams may be cut differently: the batch of a dictionary ends where that one does."""
    for batches in zip(*streams, strict=False):
        left: list[pa.RecordBatch] = list(batches)
        while len({batch.num_rows for batch in left}) > 1:
            rows = min(batch.num_rows for batch in left)
            yield [batch.slice(0, rows) for batch in left]
            for number, batch in enumerate(left):
                rest = batch.slice(rows) if rows < batch.num_rows else next(streams[number], None)
                if rest is None:
                    return
                left[number] = rest
        yield left
