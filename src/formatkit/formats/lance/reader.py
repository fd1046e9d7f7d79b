"""Opens Lance files and reads them: which columns and which rows. Lance's files know nothing of predicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
from lance.file import LanceFileReader
from pyiceberg.schema import Schema

from formatkit.batches.arrow.file_reading import Projector, rows_without_columns
from formatkit.contract.file_end import end_of
from formatkit.contract.options import OpenOptions, ReadOptions, Split
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.formats.lance.failures import corrupt, reading
from formatkit.formats.lance.known_schemas import known_schema
from formatkit.formats.lance.local_file import LocalFile
from formatkit.formats.lance.projection import Decoded, decoded_columns

__all__ = ["LanceDataFile", "LanceReader", "split_offsets"]

_SPLIT_ROWS = 65_536
_READ_AHEAD = 2
"""How many batches Lance may decode at once; more of them, 16 by default, only take more memory."""

_MOST_ROWS_AT_ONCE = 32_768
"""Lance is fastest at 16,384 to 32,768; the fewer batches, the less is done for each."""


class LanceReader:
    """Opens Lance files for Arrow batches."""

    def open(self, source: ByteSource, options: OpenOptions) -> LanceDataFile:
        if options.encryption is not None:
            raise UnsupportedError(f"{source.location}: Lance files cannot be encrypted", location=source.location)
        file = LocalFile(source)
        try:
            return LanceDataFile(file)
        except BaseException:
            file.close()
            raise

    def opening_ranges(self, size: int) -> Sequence[ByteRange]:
        """What `open` reads first of a file of this length."""
        return end_of(size)


class LanceDataFile:
    """One Lance file. Its footer was read; each read opens the file anew, because Lance's readers are not shared."""

    def __init__(self, file: LocalFile) -> None:
        self._file = file
        with reading(file.location):
            reader = LanceFileReader(file.path)
            self._arrow, self._file_schema = known_schema(reader, file.location)
            self._row_count = reader.num_rows()

    @property
    def schema(self) -> Schema:
        return self._file_schema.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self._file_schema.unreadable

    @property
    def row_count(self) -> int:
        return self._row_count

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return split_offsets(self.row_count, self._file.size)

    @property
    def metadata(self) -> Mapping[str, str]:
        stored = self._arrow.metadata or {}
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in stored.items()}

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        decoded = decoded_columns(self._arrow, self.schema, options.projection)
        projector = Projector(decoded.schema, options)
        rows = self._rows(options.split)
        pages = self._file.buffers(decoded.leaves, decoded.leaf_count) if rows and decoded.paths else []
        self._file.announce(pages)
        found = self._batches(decoded, pages, rows, min(options.batch_rows, _MOST_ROWS_AT_ONCE))
        batches = self._projected(projector, found, rows.start)
        return ReadResult(batches=BatchStream(batches), residual=options.predicate, counters={"rows": len(rows)})

    def describe(self) -> Mapping[str, Any]:
        with reading(self._file.location):
            metadata: Any = LanceFileReader(self._file.path).metadata()
        return {
            "rows": self.row_count,
            "version": f"{metadata.major_version}.{metadata.minor_version}",
            "columns": len(metadata.columns),
            "pages": sum(len(column.pages) for column in metadata.columns),
            "sealed": self._file.sealed,
        }

    def close(self) -> None:
        self._file.close()

    def _rows(self, split: Split | None) -> range:
        """The rows of a split: bytes are shared out among rows evenly."""
        if split is None:
            return range(self.row_count)
        start, end = (-(-at * self.row_count // self._file.size) for at in (split.start, split.end))
        return range(max(0, start), min(end, self.row_count))

    def _batches(
        self, decoded: Decoded, pages: list[ByteRange], rows: range, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        if not decoded.paths:
            for start in range(0, len(rows), batch_rows):
                yield decoded.complete(rows_without_columns(min(batch_rows, len(rows) - start)))
            return
        if not rows:
            return
        self._file.verify(pages)
        reader = LanceFileReader(self._file.path, columns=decoded.paths)
        with closing(
            reader.read_range(rows.start, len(rows), batch_size=batch_rows, batch_readahead=_READ_AHEAD).to_batches()
        ) as batches:
            for batch in batches:
                if not self._file.sealed:
                    # Nothing vouches for these bytes, and Arrow's kernels trust offsets blindly.
                    batch.validate(full=True)
                yield decoded.complete(batch)

    def _projected(
        self, projector: Projector, found: Iterator[pa.RecordBatch], first_row: int
    ) -> Iterator[pa.RecordBatch]:
        with reading(self._file.location):
            for batch in found:
                try:
                    yield from projector.batches(batch, first_row)
                except InvalidDataError as error:
                    # A value that does not fit the column's own type was not written by a sound writer.
                    raise corrupt(self._file.location, str(error)) from error
                first_row += batch.num_rows


def split_offsets(rows: int, size: int) -> tuple[int, ...]:
    """Where every so many rows begin if the bytes of a file are shared out among its rows evenly."""
    return tuple(sorted({row * size // rows for row in range(0, rows, _SPLIT_ROWS)}))
