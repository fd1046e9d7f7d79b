"""Sources hear what a read fetches before it fetches it, in the order of need, and nothing is fetched twice."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from formatkit.batches.compiled.loading import Payback
from formatkit.contract import OpenOptions, ReadOptions
from formatkit.contract.storage import ByteRange
from formatkit.formats.parquet import announcing, decoding, gathering
from formatkit.formats.parquet.announcing import in_order_of_need
from formatkit.formats.parquet.page_content import KERNELS
from formatkit.formats.parquet.reader import ParquetDataFile, ParquetReader
from formatkit.io import MemorySource
from formatkit.kernel import bind

ROWS, ROW_GROUP = 60_000, 20_000


class RecordingSource(MemorySource):
    """Remembers what was announced and what was read, in one order."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.announced: list[ByteRange] = []
        self.reads: list[ByteRange] = []
        self.surprises = 0

    def read(self, offset: int, length: int) -> memoryview:
        self.reads.append(ByteRange(offset, length))
        unannounced = set(range(offset, offset + length)).difference(*(range(p.offset, p.end) for p in self.announced))
        self.surprises += len(unannounced)
        return super().read(offset, length)

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        self.announced += ranges

    def open(self) -> Any:
        return RecordingFile(self)


class RecordingFile(io.RawIOBase):
    """A file that is not pyarrow's own."""

    def __init__(self, source: RecordingSource) -> None:
        super().__init__()
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._source.size())[whence]
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        left = self._source.size() - self._at
        found = bytes(self._source.read(self._at, left if size is None or size < 0 else min(size, left)))
        self._at += len(found)
        return found


@pytest.fixture(scope="module")
def table() -> pa.Table:
    random = np.random.default_rng(7)
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "key": random.integers(0, 2**40, ROWS),
            "text": [f"text {number}" for number in random.integers(0, 10**9, ROWS)],
            "city": [f"city {number}" for number in random.integers(0, 20, ROWS)],
            "list": [[number] * (number % 3) for number in range(ROWS)],
        }
    )


@pytest.fixture(scope="module", params=[True, False], ids=["page index", "no page index"])
def data(table: pa.Table, request: pytest.FixtureRequest) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, row_group_size=ROW_GROUP, data_page_size=4096, compression="zstd", write_page_index=request.param
    )
    return sink.getvalue().to_pybytes()


def opened(data: bytes) -> tuple[RecordingSource, ParquetDataFile]:
    source = RecordingSource(data)
    file = ParquetReader().open(source, OpenOptions())
    source.reads.clear()
    source.surprises = 0
    return source, file


def read_twice(reads: Sequence[ByteRange]) -> int:
    ordered = sorted(reads)
    return sum(max(0, before.end - after.offset) for before, after in pairwise(ordered))


def test_all_chunks_are_announced_before_the_first_batch_is_asked_for(data: bytes) -> None:
    source, file = opened(data)
    result = file.read(ReadOptions(projection=file.schema))
    announced = list(source.announced)
    assert not source.reads
    with result.batches as batches:
        assert sum(batch.num_rows for batch in batches) == ROWS
    assert source.announced == announced
    assert source.surprises == 0
    assert sorted(source.reads) == sorted(announced), "each column chunk is taken by one read"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id >= 30000 and id < 30100", (pc.field("id") >= 30000) & (pc.field("id") < 30100)),
        ("key < 549755813", pc.field("key") < 549755813),
        ("id = 59999", pc.field("id") == 59999),
    ],
)
@pytest.mark.parametrize("gathered", [True, False])
def test_what_a_selective_read_fetches_was_announced(
    data: bytes, table: pa.Table, where: str, expected: pc.Expression, gathered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "PAYBACK", Payback(KERNELS, -1 if gathered else 1 << 40))
    source, file = opened(data)
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, where)))
    assert source.announced
    assert not source.reads
    with result.batches as batches:
        found = [row for batch in batches for row in batch.to_pylist()]
    assert found == table.filter(expected).to_pylist()
    assert source.surprises == 0
    assert read_twice(source.reads) == 0


def test_the_next_row_group_is_announced_before_the_rows_of_this_one_are_handed_out(data: bytes) -> None:
    source, file = opened(data)
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, "key < 549755813")))
    with result.batches as batches:
        next(iter(batches))
        metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
        key = metadata.row_group(1).column(1)
        start = key.dictionary_page_offset or key.data_page_offset
        assert any(start <= part.offset < start + key.total_compressed_size for part in source.announced)


def test_chunks_that_are_decoded_side_by_side_are_announced_in_stripes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "_STRIPE_BYTES", 40)
    monkeypatch.setattr(announcing, "_LEAST_PIECE", 10)
    chunks = [ByteRange(0, 100), ByteRange(100, 5), ByteRange(105, 95)]
    pieces = list(in_order_of_need(chunks))
    assert pieces[:4] == [ByteRange(0, 20), ByteRange(100, 5), ByteRange(105, 19), ByteRange(20, 20)]
    for chunk in chunks:
        inside = [piece for piece in pieces if chunk.offset <= piece.offset < chunk.end]
        assert [piece.offset for piece in inside[1:]] == [piece.end for piece in inside[:-1]]
        assert (inside[0].offset, inside[-1].end) == (chunk.offset, chunk.end)
    assert list(in_order_of_need(chunks[1:2])) == chunks[1:2]


def test_large_chunks_are_read_in_pieces(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_WHOLE_BYTES", 1000)
    monkeypatch.setattr(decoding, "_MIN_COLUMN_BUFFER", 1024)
    monkeypatch.setattr(decoding, "_MAX_COLUMN_BUFFER", 1024)
    source, file = opened(data)
    with file.read(ReadOptions(projection=file.schema)).batches as batches:
        assert sum(batch.num_rows for batch in batches) == ROWS
    assert len(source.reads) > 2 * len(source.announced)
    assert source.surprises == 0
