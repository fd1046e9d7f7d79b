from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, LongType, MapType, NestedField, StringType, UnknownType

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.plain_format import FileDescription, PlainFormat, batch_of_rows
from formatkit.contract import POS, ByteSource, Encryption, OpenOptions, ReadOptions, Split, WriteOptions
from formatkit.errors import CorruptFileError, InvalidDataError, StorageError, UnsupportedError
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind

SCHEMA = Schema(NestedField(1, "n", LongType()))
KEY = Encryption(key=b"k" * 16)


class Bytes(PlainFormat):
    """A byte for each row of the one column; whatever is raised while reading is an argument."""

    file_format = "bytes"

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.stored: Schema | None = None

    def describe(self, source: ByteSource) -> FileDescription:
        return FileDescription(schema=SCHEMA, facts={"size": source.size()})

    def decode(
        self, source: ByteSource, description: FileDescription, columns: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        for start in range(1, source.size() - 1, 5):
            part = bytes(source.read(start, min(5, source.size() - 1 - start)))
            yield pa.record_batch({"n": pa.array(list(part), pa.int64())}).select(list(columns))
        if self.failure is not None:
            raise self.failure

    def begin(self, options: WriteOptions) -> bytes:
        self.stored = options.schema
        return b"<"

    def encode(self, batch: pa.RecordBatch, options: WriteOptions) -> bytes:
        column: Any = batch.column(0)
        return bytes(column.to_pylist())

    def end(self, rows: int, options: WriteOptions) -> bytes:
        return b">"


def read(form: PlainFormat, data: bytes, **options: Any) -> list[pa.RecordBatch]:
    file = form.reader().open(MemorySource(data), OpenOptions())
    with file.read(ReadOptions(**{"projection": file.schema, **options})).batches as batches:
        return list(batches)


def test_what_was_written_is_read_with_positions_in_batches_of_a_size() -> None:
    sink = MemorySink()
    with Bytes().writer().open(sink, WriteOptions(schema=SCHEMA)) as writer:
        for part in ([7, 8, 9], [], [10, 11, 12, 13]):
            writer.write(pa.record_batch({"n": pa.array(part, pa.int64())}))
        result = writer.close()
    assert sink.data == b"<\x07\x08\x09\x0a\x0b\x0c\x0d>"
    assert result is not None
    assert (result.row_count, result.size_bytes, result.split_offsets) == (7, 9, None)
    batches = read(Bytes(), sink.data, projection=Schema(*SCHEMA.fields, POS), batch_rows=3)
    assert [batch.to_pydict() for batch in batches] == [
        {"n": [7, 8, 9], "_pos": [0, 1, 2]},
        {"n": [10, 11], "_pos": [3, 4]},
        {"n": [12, 13], "_pos": [5, 6]},
    ]


def test_the_whole_predicate_is_left() -> None:
    predicate = bind(SCHEMA, "n > 1")
    file = Bytes().reader().open(MemorySource(b"<\1>"), OpenOptions())
    assert file.read(ReadOptions(projection=SCHEMA, predicate=predicate)).residual == predicate


def test_a_split_is_read_if_it_is_the_whole_file() -> None:
    assert sum(batch.num_rows for batch in read(Bytes(), b"<\1\2>", split=Split(0, 4))) == 2
    for part in (Split(0, 3), Split(1, 3)):
        with pytest.raises(UnsupportedError, match="bytes cannot read a part"):
            read(Bytes(), b"<\1\2>", split=part)


def test_a_key_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot decrypt"):
        Bytes().reader().open(MemorySource(b"<>"), OpenOptions(encryption=KEY))
    with pytest.raises(UnsupportedError, match="cannot encrypt"):
        Bytes().writer().open(MemorySink(), WriteOptions(schema=SCHEMA, encryption=KEY))


@pytest.mark.parametrize(
    "failure",
    [
        KeyError("schema"),
        ValueError("odd"),
        EOFError(),
        pa.ArrowInvalid("odd"),
        OSError("no number"),
        InvalidDataError("odd"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_whatever_ends_the_parsing_means_a_corrupt_file(failure: Exception) -> None:
    with pytest.raises(CorruptFileError, match="<memory>: is a corrupt bytes file") as caught:
        read(Bytes(failure), b"<\1>")
    assert caught.value.__cause__ is failure


@pytest.mark.parametrize("failure", [OSError(5, "disk"), StorageError("disk"), UnsupportedError("not here")])
def test_failures_of_others_stay_what_they_are(failure: Exception) -> None:
    with pytest.raises(type(failure)) as caught:
        read(Bytes(failure), b"<\1>")
    assert caught.value is failure


def test_unknown_columns_are_not_handed_to_the_format() -> None:
    form = Bytes()
    schema = Schema(NestedField(1, "n", LongType()), NestedField(2, "u", UnknownType()))
    with form.writer().open(MemorySink(), WriteOptions(schema=schema)) as writer:
        writer.write(pa.record_batch([pa.array([1]), pa.nulls(1)], names=["n", "u"]))
    assert form.stored == SCHEMA


def test_a_format_that_fails_to_encode_leaves_no_file() -> None:
    sink = MemorySink()
    writer = Bytes().writer().open(sink, WriteOptions(schema=SCHEMA))
    with pytest.raises(ValueError, match="range"):
        writer.write(pa.record_batch({"n": [256]}))
    with pytest.raises(Exception, match="aborted"):
        writer.close()
    assert sink.data is None


def test_rows_are_made_into_the_batch_that_they_came_from() -> None:
    schema = Schema(
        NestedField(1, "d", DateType()),
        NestedField(2, "m", MapType(3, StringType(), 4, LongType(), value_required=False)),
    )
    rows = [(date(2020, 1, 1), [("a", None)]), (None, None), (2**31 - 1, [])]
    batch = batch_of_rows(schema, rows)
    assert list(ArrowBatch().rows(schema, batch)) == rows
    assert batch_of_rows(Schema(), [(), ()]).num_rows == 2


def test_key_value_pairs_that_are_not_declared_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="key-value pairs"):
        Bytes().writer().open(MemorySink(), WriteOptions(schema=SCHEMA, metadata={"owner": "me"}))
