"""Tells a source which bytes a read will fetch, in the order of need, before any of them is decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.formats.parquet.footer import Footer, RowGroup

__all__ = ["announce_chunks", "announce_indexes", "in_order_of_need"]

_STRIPE_BYTES = 16 * 1024 * 1024
_LEAST_PIECE = 1024 * 1024


def announce_chunks(source: ByteSource, row_groups: Iterable[RowGroup], leaves: Sequence[int]) -> None:
    """Announce all pages of some leaves, row group by row group."""
    chunks = (list(row_group.chunk_ranges(leaves)) for row_group in row_groups)
    source.prefetch([part for ranges in chunks for part in in_order_of_need(ranges)])


def announce_indexes(
    source: ByteSource, footer: Footer, row_groups: Iterable[RowGroup], tested: Sequence[int], rest: Sequence[int]
) -> None:
    """Announce what rules pages out: what `tested` leaves hold, and where the pages of these and of others are.

    Where there is no page index, the tested leaves will be read as a whole, and are announced so.
    """
    indexes: list[ByteRange] = []
    chunks: list[ByteRange] = []
    for row_group in row_groups:
        found = [part for leaf in tested for part in _indexes(footer, row_group, leaf, bounds=True)]
        if found:
            indexes += found
            indexes += (part for leaf in rest for part in _indexes(footer, row_group, leaf, bounds=False))
        else:
            chunks += in_order_of_need(list(row_group.chunk_ranges(tested)))
    source.prefetch(indexes + chunks)


def in_order_of_need(chunks: Sequence[ByteRange]) -> Iterator[ByteRange]:
    """Column chunks that are decoded side by side: the first part of each before the second part of any."""
    total = sum(chunk.length for chunk in chunks)
    if total <= 2 * _STRIPE_BYTES:
        yield from chunks
        return
    steps = [max(chunk.length * _STRIPE_BYTES // total, _LEAST_PIECE) for chunk in chunks]
    for stripe in range(total // _STRIPE_BYTES + 1):
        for chunk, step in zip(chunks, steps, strict=True):
            start = stripe * step
            if start < chunk.length:
                yield ByteRange(chunk.offset + start, min(step, chunk.length - start))


def _indexes(footer: Footer, row_group: RowGroup, leaf: int, *, bounds: bool) -> Iterator[ByteRange]:
    record = footer.chunk_record(row_group, leaf) if footer.decryption is None else None
    if record is None or record.offset_index is None:
        return
    if bounds and record.column_index is not None:
        yield record.column_index
    yield record.offset_index
