"""Decodes row groups into Polars frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import polars as pl
from pyiceberg.schema import Schema

from formatkit.batches.arrow.decimals import check_decimals
from formatkit.batches.polars.types import polars_schema
from formatkit.contract.metadata_columns import POS
from formatkit.contract.storage import ByteSource
from formatkit.errors import FormatkitError, is_of_the_machine, machine_errors
from formatkit.formats.parquet.decoding import HowToDecode, decode
from formatkit.formats.parquet.failures import corrupt
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.polars.plain_file import PlainFiles
from formatkit.formats.parquet.projection import Projection
from formatkit.formats.parquet.pruning.row_groups import RowGroupRead

__all__ = ["decode_by_arrow", "decode_by_polars", "decoding_by_polars"]

_PORTION_BYTES = 8 * 1024 * 1024
"""Row groups are decoded together up to this size on disk; a larger one by itself."""


def decode_by_polars(
    files: PlainFiles, row_groups: Sequence[RowGroup], projection: Schema, batch_rows: int
) -> Iterator[pl.DataFrame]:
    """All rows of the row groups, in file order, without a decoder other than Polars."""
    complete = _Completion(files, projection)
    if files.schema.leaves:
        files.announce(row_groups)
    for portion in _portions(files, row_groups):
        position, end = portion[0].first_row, portion[-1].first_row + portion[-1].rows
        frames = _decoded(files, portion, batch_rows) if files.schema.leaves else _empty(end - position, batch_rows)
        for frame in frames:
            yield complete(frame, position)
            position += frame.height
        if position != end:
            found, promised = position - portion[0].first_row, end - portion[0].first_row
            names = f"{portion[0].index} to {portion[-1].index}"
            raise corrupt(files.location, f"row groups {names} promise {promised} rows and hold {found}")


def decode_by_arrow(
    source: ByteSource, footer: Footer, projection: Projection, reads: Sequence[RowGroupRead], batch_rows: int
) -> Iterator[pl.DataFrame]:
    """The same by pyarrow, for columns that Polars would not decode exactly. Most values are not copied."""
    names = [str(position) for position in range(len(projection.schema))]
    for batch in decode(source, footer, projection, reads, HowToDecode(batch_rows=batch_rows), {}):
        columns = [pl.Series(name, column) for name, column in zip(names, batch.columns, strict=True)]
        yield pl.DataFrame(columns) if columns else pl.DataFrame(height=batch.num_rows)


def _portions(files: PlainFiles, row_groups: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
    """Row groups whose rows follow one another and that are small enough to be decoded together."""
    portion: list[RowGroup] = []
    size = 0
    for row_group in row_groups:
        more = files.size(row_group)
        follows = bool(portion) and portion[-1].first_row + portion[-1].rows == row_group.first_row
        if portion and (not follows or size + more > _PORTION_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(row_group)
        size += more
    if portion:
        yield portion


def _decoded(files: PlainFiles, portion: Sequence[RowGroup], batch_rows: int) -> Iterator[pl.DataFrame]:
    content = files.of(portion)
    with decoding_by_polars(files.location):
        lazy = pl.scan_parquet(content, use_statistics=False)
        for frame in lazy.collect_batches(chunk_size=batch_rows, maintain_order=True):
            yield from frame.iter_slices(batch_rows)


def _empty(rows: int, batch_rows: int) -> Iterator[pl.DataFrame]:
    """Frames without columns: nothing is decoded."""
    return (pl.DataFrame(height=min(batch_rows, rows - start)) for start in range(0, rows, batch_rows))


class _Completion:
    """From what was decoded to exactly the columns of the projection."""

    def __init__(self, files: PlainFiles, projection: Schema) -> None:
        self._names = list(polars_schema(projection))
        self._decimals = files.schema.decimals
        self._timed = [pl.col(name).cast(kind) for name, kind in files.schema.casts.items()]
        self._absent = [
            pl.lit(None).alias(str(position))
            for position, field in enumerate(projection.fields)
            if str(position) not in files.schema.names and field.field_id != POS.field_id
        ]
        self._positions = str(len(projection.fields) - 1) if POS in projection.fields else None
        self._order = [pl.col(str(position)).alias(name) for position, name in enumerate(self._names)]

    def __call__(self, frame: pl.DataFrame, first_row: int) -> pl.DataFrame:
        for name, shown in self._decimals.items():
            check_decimals(frame.get_column(name).to_arrow(), shown)
        added = [*self._timed, *self._absent]
        if self._positions is not None:
            rows = pl.int_range(first_row, first_row + frame.height, dtype=pl.Int64)
            added.append(rows.alias(self._positions))
        if added:
            frame = frame.with_columns(added)
        return frame.select(self._order) if self._order else frame


@contextmanager
def decoding_by_polars(location: str) -> Iterator[None]:
    """Turn Polars' errors inside the block into errors that name the file."""
    try:
        with machine_errors(location):
            yield
    except FormatkitError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if is_of_the_machine(error):
            raise
        raise corrupt(location, str(error)) from error
