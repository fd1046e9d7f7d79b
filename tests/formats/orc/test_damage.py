"""Damaged files give a typed error or rows; never anything else, whatever byte was hit."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType, TimestampType

from formatkit.contract import POS, ReadOptions
from formatkit.errors import CorruptFileError, FormatkitError, InvalidDataError
from formatkit.formats.orc.protobuf import Message, ProtobufError, encode, encode_field, zigzag
from support.orc_files import open_bytes, pyorc_bytes, stripes_of, written

SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "t", StringType()),
    NestedField(3, "l", ListType(4, LongType(), element_required=False)),
    NestedField(5, "m", MapType(6, StringType(), 7, LongType(), value_required=False)),
    NestedField(8, "s", StructType(NestedField(9, "at", TimestampType()))),
)
FAR = 2**62


def file_of(codec: str) -> bytes:
    rows = range(90)
    columns: list[Any] = [
        pa.array([n if n % 7 else None for n in rows]),
        pa.array([f"text {n % 9}" for n in rows]),
        pa.array([[n, None] if n % 3 else None for n in rows]),
        pa.array([[("k", n)] for n in rows], pa.map_(pa.string(), pa.int64())),
        pa.array([{"at": FAR if n == 80 else -n} for n in rows], pa.struct([("at", pa.timestamp("us"))])),
    ]
    properties = {**stripes_of(30), "write.orc.compression-codec": codec}
    return written(SCHEMA, [pa.RecordBatch.from_arrays(columns, ["n", "t", "l", "m", "s"])], properties=properties)[0]


FILES = [file_of(codec) for codec in ("none", "zlib", "snappy", "lz4", "zstd")]


def read(data: bytes) -> int:
    file = open_bytes(data)
    file.describe()
    options = ReadOptions(projection=Schema(*file.schema.fields, POS), batch_rows=17)
    rows = 0
    with file.read(options).batches as batches:
        for batch in batches:
            batch.validate(full=True)
            rows += batch.num_rows
    return rows


def failure_of(data: bytes) -> FormatkitError | None:
    try:
        read(data)
    except FormatkitError as error:
        return error
    return None


@pytest.mark.parametrize("data", FILES, ids=["none", "zlib", "snappy", "lz4", "zstd"])
def test_a_file_that_was_cut_is_corrupt(data: bytes) -> None:
    for length in range(0, len(data), 7):
        with pytest.raises(CorruptFileError):
            read(data[:length])


@settings(max_examples=3 * settings().max_examples)
@given(seed=st.integers(0, 2**32), file=st.sampled_from(range(len(FILES))))
def test_changed_bytes_give_rows_or_a_typed_error(seed: int, file: int) -> None:
    chance = random.Random(seed)
    data = bytearray(FILES[file])
    first = chance.choice([0, len(data) - 600])
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(first, len(data))
        data[place] = chance.choice([data[place] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255])
    failure = failure_of(bytes(data))
    assert failure is None or "<memory>" in str(failure)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"ORC", b"x" * 300, b"ORC" * 100, b"PAR1" * 20], ids=lambda data: repr(data[:8])
)
def test_what_is_no_orc_file_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        open_bytes(data)


@given(data=st.binary(max_size=60))
def test_messages_are_parsed_or_refused(data: bytes) -> None:
    try:
        message = Message(data)
    except ProtobufError:
        return
    for number in range(1, 16):
        if number in message:
            for ask in (message.integer, message.content, message.text, message.integers, message.messages):
                try:
                    ask(number)
                except ProtobufError:
                    continue


@given(fields=st.dictionaries(st.integers(1, 9000), st.integers(0, 2**64 - 1) | st.binary(max_size=300)))
def test_messages_come_back(fields: dict[int, int | bytes]) -> None:
    message = Message(encode(fields.items()))
    for number, value in fields.items():
        assert (message.integer(number) if isinstance(value, int) else message.content(number)) == value


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_signed_numbers_come_back(value: int) -> None:
    assert Message(encode_field(1, zigzag(value))).signed(1) == value


def test_a_key_of_a_map_that_is_null_is_refused() -> None:
    data = pyorc_bytes("struct<m:map<string,bigint>>", [({"a": 1},), ({None: 2},)])
    with pytest.raises(InvalidDataError, match="null keys"):
        read(data)
