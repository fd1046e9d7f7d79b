"""The stream layout: record batches one after the other, with nothing that tells where they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from formatkit.contract.options import Split
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError
from formatkit.formats.arrow.batches import opened, read_options, validated

__all__ = ["StreamLayout"]

_CONTINUATION = b"\xff\xff\xff\xff"
_NO_LENGTH = b"\0\0\0\0"
_STEP_BYTES = 4 << 20


class StreamLayout:
    """One file in the stream layout. A stream that lacks its end marker is taken for one that was cut."""

    name = "stream"
    row_count = None
    split_offsets = ()

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._size = source.size()
        with opened(source) as file:
            self.schema = ipc.open_stream(file).schema
        # Before version 0.15 messages did not begin with a marker, the end neither.
        is_old = bytes(source.read(0, 4)) != _CONTINUATION
        end = _NO_LENGTH if is_old else _CONTINUATION + _NO_LENGTH
        if bytes(source.read(self._size - len(end), len(end))) != end:
            raise self._corrupt("it has no end marker, so it was cut or not finished")

    def describe(self) -> Mapping[str, Any]:
        return {}

    def announce(self, columns: Sequence[int], split: Split | None) -> None:
        """Say what `batches` will read, which is everything from the start to the end."""
        if split is None or split.start <= 0 < split.end:
            starts = range(0, self._size, _STEP_BYTES)
            self._source.prefetch([ByteRange(start, min(_STEP_BYTES, self._size - start)) for start in starts])

    def batches(self, columns: Sequence[int], split: Split | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The record batches with some of their columns, each with the ordinal of its first row.

        The stream is one chunk, and belongs to the split that holds its first byte.
        """
        if split is not None and not split.start <= 0 < split.end:
            return
        first_row = 0
        with opened(self._source) as file:
            # Without any column, the first one tells how many rows there are.
            reader = ipc.open_stream(file, options=read_options(columns or [0], len(self.schema)))
            for batch in reader:
                batch = validated(batch)
                yield first_row, batch if columns else batch.select([])
                first_row += batch.num_rows
            if file.tell() != self._size:
                raise self._corrupt(f"it seems to end at byte {file.tell()} of {self._size}")

    def _corrupt(self, what: str) -> CorruptFileError:
        location = self._source.location
        return CorruptFileError(f"{location}: is a corrupt Arrow stream: {what}", location=location)
