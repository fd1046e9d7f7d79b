"""Opens Vortex files and reads them: which columns, which rows, and what is left of the predicate.

A file has a seal (`formatkit.contract.seal`) if it was written here: ids, the key-value pairs and checksums of all its
bytes. Vortex's other readers do not look at the place where it stands. Files without a seal have no ids, and what is
decoded from them is checked, because nothing vouches for their bytes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import vortex as vx
from pyiceberg.expressions import AlwaysFalse
from pyiceberg.schema import Schema

from formatkit.batches.arrow.file_reading import Projector, rows_without_columns
from formatkit.batches.arrow.types import arrow_field
from formatkit.contract.metadata_columns import POS
from formatkit.contract.options import OpenOptions, ReadOptions, Split
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.forks import cached
from formatkit.formats.vortex.decoding import NumberedRows, RowRange, Scan
from formatkit.formats.vortex.failures import corrupt, reading
from formatkit.formats.vortex.predicate import push_down
from formatkit.formats.vortex.projection import Decoded, decoded_columns
from formatkit.formats.vortex.schema import columns_of
from formatkit.formats.vortex.source_reads import SourceReads, opening_ranges

__all__ = ["VortexDataFile", "VortexReader"]


class VortexReader:
    """Opens Vortex files for Arrow batches."""

    def open(self, source: ByteSource, options: OpenOptions) -> VortexDataFile:
        if options.encryption is not None:
            raise UnsupportedError(f"{source.location}: Vortex files cannot be encrypted", location=source.location)
        return VortexDataFile(SourceReads(source))

    def opening_ranges(self, size: int) -> Sequence[ByteRange]:
        """What `open` reads first of a file of this length."""
        return opening_ranges(size)


class VortexDataFile:
    """One Vortex file. Its footer was read; reads share it and nothing else."""

    def __init__(self, reads: SourceReads) -> None:
        self._reads = reads
        with reading(reads):
            self._file = vx.open_readable(reads, without_segment_cache=True)
            self._columns = columns_of(self._file.dtype, reads.seal, reads.location)

    @property
    def schema(self) -> Schema:
        return self._columns.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self._columns.unreadable

    @property
    def row_count(self) -> int:
        return len(self._file)

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return split_offsets(self._chunks, self._reads.size())

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._columns.metadata

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        chunks = [chunk for chunk in self._chunks if self._belongs(chunk, options.split)]
        if isinstance(options.predicate, AlwaysFalse):
            chunks = []
        condition, residual = push_down(options.predicate, options.projection, self._columns.arrow)
        decoded = decoded_columns(self._columns, options.projection)
        is_whole = sorted(decoded.arrow, key=str) == sorted(self._columns.arrow, key=str)
        if condition is None and is_whole and chunks == self._chunks:
            self._reads.announce_all()
        batches = self._batches(options, decoded, chunks, condition)
        counters = {"chunks": len(self._chunks), "chunks_in_split": len(chunks)}
        return ReadResult(batches=BatchStream(batches), residual=residual, counters=counters)

    def describe(self) -> Mapping[str, Any]:
        return {
            "rows": self.row_count,
            "chunks": len(self._chunks),
            "type": str(self._file.dtype),
            "sealed": self._reads.seal is not None,
        }

    def close(self) -> None:
        """Nothing stays open between reads."""

    @cached
    def _chunks(self) -> list[RowRange]:
        with reading(self._reads):
            chunks = [RowRange(*split) for split in self._file.splits()]
        bounds = [0, *(chunk.end for chunk in chunks)]
        if (
            any(chunk.start != start for chunk, start in zip(chunks, bounds, strict=False))
            or bounds[-1] != self.row_count
        ):
            raise corrupt(self._reads.location, f"its chunks do not cover its {self.row_count} rows")
        return chunks

    def _belongs(self, chunk: RowRange, split: Split | None) -> bool:
        """Whether a split owns a chunk: bytes are shared out among rows evenly, and the chunk's middle decides."""
        middle = (chunk.start + chunk.end) * self._reads.size() // (2 * self.row_count)
        return split is None or split.start <= middle < split.end

    def _batches(
        self, options: ReadOptions, decoded: Decoded, chunks: list[RowRange], condition: Any
    ) -> Iterator[pa.RecordBatch]:
        if not chunks:
            return
        fields = [field for field in options.projection.fields if field.field_id != POS.field_id]
        columns_only = replace(options, projection=Schema(*fields), dictionary_columns=frozenset())
        projector = Projector(decoded.schema, columns_only)
        with_positions = len(fields) < len(options.projection.fields)
        scan = Scan(self._file, self._reads, decoded, options.batch_rows)
        rows = RowRange(chunks[0].start, chunks[-1].end)
        if condition is None and not any(decoded.stored):
            found = _counted(decoded, rows, options.batch_rows)
        elif condition is not None and with_positions:
            found = scan.numbered_matches(rows, condition)
        else:
            found = scan.rows(rows, condition)
        with closing(found):
            for part in found:
                yield from self._projected(projector, part, with_positions)

    def _projected(self, projector: Projector, part: NumberedRows, with_positions: bool) -> Iterator[pa.RecordBatch]:
        try:
            for batch in projector.batches(part.columns, part.first_row):
                yield _with_positions(batch, part) if with_positions else batch
        except InvalidDataError as error:
            # A value that does not fit the column's own type was not written by a sound writer.
            raise corrupt(self._reads.location, str(error)) from error


def split_offsets(chunks: list[RowRange], size: int) -> tuple[int, ...]:
    """Where the chunks of a file begin if its bytes are shared out among its rows evenly."""
    return tuple(chunk.start * size // chunks[-1].end for chunk in chunks)


def _counted(decoded: Decoded, rows: RowRange, batch_rows: int) -> Generator[NumberedRows]:
    """Rows of which no column is stored."""
    for start in range(rows.start, rows.end, batch_rows):
        empty = rows_without_columns(min(batch_rows, rows.end - start))
        yield NumberedRows(decoded.complete(empty), start)


def _with_positions(batch: pa.RecordBatch, part: NumberedRows) -> pa.RecordBatch:
    numbers = part.numbers
    if numbers is None:
        numbers = np.arange(part.first_row, part.first_row + batch.num_rows, dtype=np.int64)
    schema = batch.schema.append(arrow_field(POS))
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(numbers)], schema=schema)
