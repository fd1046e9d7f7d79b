"""The encoder of metadata writes what pyiceberg's writes."""

from __future__ import annotations

import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.catalog.sql import SqlCatalog

from formatkit.write.commit.avro_output import _Encoder
from support.commits import append, data_file, new_table
from support.iceberg_tables import local_path

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(LONGS)
def test_numbers_are_encoded_as_by_pyiceberg(number: int) -> None:
    ours, theirs = io.BytesIO(), io.BytesIO()
    _Encoder(ours).write_int(number)
    BinaryEncoder(theirs).write_int(number)
    assert ours.getvalue() == theirs.getvalue()


@pytest.mark.parametrize("length", [0, 1, 63, 64, 8_191, 8_192, 20_000])
def test_bytes_are_encoded_as_by_pyiceberg(length: int) -> None:
    ours, theirs = io.BytesIO(), io.BytesIO()
    _Encoder(ours).write_bytes(b"x" * length)
    BinaryEncoder(theirs).write_bytes(b"x" * length)
    assert ours.getvalue() == theirs.getvalue()


def test_compressed_blocks_end_with_the_data(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    content = local_path(append(table, data_file(table, "a")).manifest_list).read_bytes()
    sync = content[-16:]
    block = content[content.index(sync) + len(sync) : -len(sync)]
    stream = io.BytesIO(block)
    decoder = StreamingBinaryDecoder(stream)
    assert decoder.read_int() == 1
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    inflater.decompress(decoder.read_bytes())
    assert inflater.eof
    assert inflater.unused_data == b""
