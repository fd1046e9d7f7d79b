"""Opens Arrow IPC files and reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.file_reading import Projector, decoding
from formatkit.batches.arrow.file_schema import file_schema
from formatkit.contract.file_end import end_of
from formatkit.contract.options import OpenOptions, ReadOptions, Split
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import UnsupportedError
from formatkit.formats.arrow.file_layout import MAGIC, FileLayout
from formatkit.formats.arrow.stream_layout import StreamLayout

__all__ = ["ArrowDataFile", "ArrowReader"]

_FEATHER_1 = b"FEA1"
_HEAD_BYTES = 4 << 10


class ArrowReader:
    """Opens Arrow IPC files, whichever layout they have."""

    def open(self, source: ByteSource, options: OpenOptions) -> ArrowDataFile:
        if options.encryption is not None:
            raise UnsupportedError(f"{source.location}: Arrow files cannot be encrypted", location=source.location)
        head = bytes(source.read(0, min(source.size(), len(MAGIC))))
        if head.startswith(_FEATHER_1):
            message = f"{source.location}: is Feather version 1, which is not Arrow IPC; write it anew as version 2"
            raise UnsupportedError(message, location=source.location)
        return ArrowDataFile(source.location, FileLayout(source) if head == MAGIC else StreamLayout(source))

    def opening_ranges(self, size: int) -> Sequence[ByteRange]:
        """What `open` reads first of a file of this length. The schema of a stream is at its head."""
        return (ByteRange(0, min(size, _HEAD_BYTES)), *end_of(size))


class ArrowDataFile:
    """One Arrow file. Its schema was read; each read opens the file anew, so that reads do not share a cursor."""

    def __init__(self, location: str, layout: FileLayout | StreamLayout) -> None:
        self._location = location
        self._layout = layout
        with decoding(location, "Arrow"):
            self._file_schema = file_schema(layout.schema, location)

    @property
    def schema(self) -> Schema:
        return self._file_schema.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self._file_schema.unreadable

    @property
    def row_count(self) -> int | None:
        return self._layout.row_count

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return self._layout.split_offsets

    @property
    def metadata(self) -> Mapping[str, str]:
        stored = self._layout.schema.metadata or {}
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in stored.items()}

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        projector = Projector(self.schema, options)
        self._layout.announce(projector.positions, options.split)
        batches = self._batches(projector, options.split)
        # Arrow files hold no statistics, and the kernel filters as well as a reader could.
        return ReadResult(batches=BatchStream(batches), residual=options.predicate)

    def describe(self) -> Mapping[str, Any]:
        return {"layout": self._layout.name, **self._layout.describe()}

    def close(self) -> None:
        """Nothing stays open between reads."""

    def _batches(self, projector: Projector, split: Split | None) -> Iterator[pa.RecordBatch]:
        with decoding(self._location, "Arrow"):
            for first_row, columns in self._layout.batches(projector.positions, split):
                yield from projector.batches(columns, first_row)
