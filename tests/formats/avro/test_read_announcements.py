"""What a read fetches is announced before its first batch is asked for, and fetched once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from formatkit.contract import ByteRange, Encryption, OpenOptions, ReadOptions, Split
from formatkit.contract.format import SaysWhatItOpensWith
from formatkit.formats.avro.encryption import encrypting_sink
from formatkit.formats.avro.plugin import AvroFormat
from formatkit.io import MemorySink, MemorySource
from support.avro_reading import avro_file, field, record

SCHEMA = record(field("id", "long"), field("data", "bytes"))
RANDOM = Random(7)
ROWS = [{"id": number, "data": RANDOM.randbytes(RANDOM.choice([10, 50_000]))} for number in range(150)]
LARGE = avro_file(SCHEMA, ROWS, rows_per_block=4)
ONE_BLOCK = avro_file(SCHEMA, ROWS, rows_per_block=len(ROWS))
SMALL = avro_file(SCHEMA, [{"id": 1, "data": b""}])
KEY = Encryption(key=b"0123456789abcdef", aad_prefix=b"")


class RecordingSource(MemorySource):
    """Bytes in memory that remember what was announced and what was read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, location="recorded.avro")
        self.announced: list[ByteRange] = []
        self.taken: list[ByteRange] = []

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        self.announced.extend(ranges)

    def read(self, offset: int, length: int) -> memoryview:
        self.taken.append(ByteRange(offset, length))
        return super().read(offset, length)


def ids(source: RecordingSource, split: Split | None = None, options: OpenOptions | None = None) -> list[int]:
    """Read everything; what opening the file took is forgotten before."""
    file = AvroFormat().reader().open(source, options or OpenOptions())
    source.taken.clear()
    result = file.read(ReadOptions(projection=file.schema, split=split))
    announced = list(source.announced)
    with result.batches as batches:
        found = [row["id"] for batch in batches for row in batch.to_pylist()]
    assert source.announced == announced
    return found


@pytest.mark.parametrize("data", [LARGE, ONE_BLOCK], ids=["many blocks", "one block"])
def test_a_whole_file_is_read_once_in_the_announced_ranges(data: bytes) -> None:
    source = RecordingSource(data)
    assert ids(source) == [row["id"] for row in ROWS]
    assert source.taken == source.announced
    assert len(source.taken) > 2
    ends = [0, *(taken.end for taken in source.taken)]
    assert [taken.offset for taken in source.taken[1:]] == ends[1:-1]
    assert source.taken[0].offset == AvroFormat().reader().opening_ranges(len(data))[0].end
    assert ends[-1] == len(data)


def test_a_small_file_is_read_by_opening_it() -> None:
    source = RecordingSource(SMALL)
    assert ids(source) == [1]
    assert source.taken == source.announced == []


@pytest.mark.parametrize("data", [LARGE, SMALL], ids=["large", "small"])
def test_the_first_read_is_the_one_that_the_reader_says_it_opens_with(data: bytes) -> None:
    source, reader = RecordingSource(data), AvroFormat().reader()
    assert isinstance(reader, SaysWhatItOpensWith)
    reader.open(source, OpenOptions())
    assert source.taken == list(reader.opening_ranges(len(data)))


@pytest.mark.parametrize("length", [40_000, 300_000, 1_500_000])
def test_splits_announce_themselves_and_read_little_behind_their_end(length: int) -> None:
    found: list[int] = []
    for start in range(0, len(LARGE), length):
        source = RecordingSource(LARGE)
        found += ids(source, Split(start, min(length, len(LARGE) - start)))
        assert source.taken[: len(source.announced)] == source.announced[: len(source.taken)]
        behind = source.taken[len(source.announced) :]
        assert all(taken.offset >= start + length for taken in behind)
        assert sum(taken.length for taken in behind) < 200_000
    assert found == [row["id"] for row in ROWS]


def test_a_split_without_blocks_announces_nothing() -> None:
    source = RecordingSource(LARGE)
    assert ids(source, Split(0, 4)) == []
    assert source.announced == source.taken == []


def test_encrypted_files_announce_the_stored_blocks_that_are_read() -> None:
    sink = MemorySink()
    stream = encrypting_sink(sink, KEY).create()
    stream.write(LARGE)
    stream.close()
    assert sink.data is not None
    source = RecordingSource(sink.data)
    assert ids(source, options=OpenOptions(encryption=KEY)) == [row["id"] for row in ROWS]
    assert source.taken == source.announced
    assert len(source.taken) > 2
