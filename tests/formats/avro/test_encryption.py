"""AES-GCM streams: what is stored, random access, and what does not pass."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, NestedField

from formatkit.contract import ByteRange, ByteSource, Encryption
from formatkit.errors import ConfigurationError, CorruptFileError, FileAlreadyExistsError
from formatkit.formats.avro.encryption import decrypting_source, encrypting_sink
from formatkit.io import MemorySink, MemorySource
from support.avro_writing import stored_rows, written

BLOCK = 1 << 20
KEY = Encryption(key=b"0123456789abcdef", aad_prefix=b"file-7")
PLAIN = os.urandom(3 * BLOCK + 5)
SIZES = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 5]


def encrypted(plain: bytes, encryption: Encryption = KEY, chunk: int = 700_001) -> bytes:
    sink = MemorySink()
    stream = encrypting_sink(sink, encryption).create()
    for start in range(0, len(plain), chunk):
        stream.write(plain[start : start + chunk])
    assert stream.tell() == len(plain)
    stream.close()
    assert stream.closed
    assert sink.data is not None
    return sink.data


def opened(data: bytes, encryption: Encryption = KEY) -> ByteSource:
    return decrypting_source(MemorySource(data, location="there"), encryption)


def stream_by_hand(blocks: list[bytes], length: int, encryption: Encryption = KEY) -> bytes:
    """The specification, with nothing but a library for AES-GCM."""
    cipher, output = AESGCM(encryption.key), b"AGS1" + length.to_bytes(4, "little")
    for number, block in enumerate(blocks):
        nonce = os.urandom(12)
        output += nonce + cipher.encrypt(nonce, block, encryption.aad_prefix + number.to_bytes(4, "little"))
    return output


STORED = encrypted(PLAIN)


@pytest.mark.parametrize("size", SIZES)
def test_streams_are_stored_as_the_specification_says(size: int) -> None:
    plain = PLAIN[:size]
    stored = encrypted(plain)
    assert stored[:8] == b"AGS1\x00\x00\x10\x00"
    assert len(stored) == 8 + size + 28 * max(1, -(-size // BLOCK))
    cipher, position, found = AESGCM(KEY.key), 8, b""
    for number in range(max(1, -(-size // BLOCK))):
        block = stored[position : position + BLOCK + 28]
        found += cipher.decrypt(block[:12], block[12:], b"file-7" + number.to_bytes(4, "little"))
        position += len(block)
    assert (position, found) == (len(stored), plain)


@pytest.mark.parametrize("size", SIZES)
def test_what_was_encrypted_is_decrypted(size: int) -> None:
    source = opened(encrypted(PLAIN[:size]))
    assert source.size() == size
    assert bytes(source.read(0, size)) == PLAIN[:size]
    assert (source.location, source.local_path()) == ("there", None)


@pytest.mark.parametrize("key_bytes", [16, 24, 32])
@pytest.mark.parametrize("prefix", [b"", b"p" * 100])
def test_every_key_length_and_prefix_works(key_bytes: int, prefix: bytes) -> None:
    encryption = Encryption(key=os.urandom(key_bytes), aad_prefix=prefix)
    assert bytes(opened(encrypted(b"text", encryption), encryption).read(0, 4)) == b"text"


@given(start=st.integers(0, len(PLAIN)), length=st.integers(0, 2 * BLOCK))
def test_any_range_can_be_read(start: int, length: int) -> None:
    length = min(length, len(PLAIN) - start)
    assert bytes(opened(STORED).read(start, length)) == PLAIN[start : start + length]


def test_threads_share_a_source() -> None:
    source = opened(STORED)

    def read(number: int) -> bool:
        start = number * 7919 * 13 % (len(PLAIN) - 5000)
        return bytes(source.read(start, 5000)) == PLAIN[start : start + 5000]

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, range(200)))


def test_other_block_lengths_are_read() -> None:
    blocks = [b"abcde", b"fghij", b"kl"]
    source = opened(stream_by_hand(blocks, 5))
    assert [bytes(source.read(start, 4)) for start in (0, 3, 8)] == [b"abcd", b"defg", b"ijkl"]


def test_a_file_object_seeks_and_reads() -> None:
    with opened(STORED).open() as file:
        file.seek(-5, io.SEEK_END)
        assert file.read() == PLAIN[-5:]
        file.seek(BLOCK - 2)
        assert file.read(4) == PLAIN[BLOCK - 2 : BLOCK + 2]
        assert file.seek(3, io.SEEK_CUR) == BLOCK + 5
        with pytest.raises(ValueError, match="before the start"):
            file.seek(-1)


def test_prefetch_asks_once_for_whole_blocks_that_are_not_there() -> None:
    asked: list[ByteRange] = []

    class Watched(MemorySource):
        def prefetch(self, ranges: Any) -> None:
            asked.extend(ranges)

    source = decrypting_source(Watched(STORED), KEY)
    source.prefetch([ByteRange(2 * BLOCK + 5, 10), ByteRange(BLOCK - 1, 2), ByteRange(2 * BLOCK, 9), ByteRange(0, 0)])
    # The first one is there already, since it proves that the key is right.
    assert asked == [ByteRange(8 + number * (BLOCK + 28), BLOCK + 28) for number in (2, 1)]


@pytest.mark.parametrize(
    "other", [Encryption(key=b"x" * 16, aad_prefix=b"file-7"), Encryption(key=KEY.key, aad_prefix=b"file-8")]
)
def test_another_key_or_prefix_does_not_open_the_file(other: Encryption) -> None:
    with pytest.raises(CorruptFileError, match="there cannot be decrypted: block 0 fails authentication"):
        opened(STORED, other)


@pytest.mark.parametrize("place", [8, 20, 8 + BLOCK, BLOCK + 8 + 28, BLOCK + 500, len(STORED) - 1])
def test_a_changed_byte_is_found_by_whoever_reads_its_block(place: int) -> None:
    changed = bytearray(STORED)
    changed[place] ^= 1
    with pytest.raises(CorruptFileError, match="fails authentication"):
        opened(bytes(changed)).read(0, len(PLAIN))


def test_exchanged_blocks_are_found() -> None:
    size = BLOCK + 28
    first, second, rest = STORED[8 : 8 + size], STORED[8 + size : 8 + 2 * size], STORED[8 + 2 * size :]
    with pytest.raises(CorruptFileError, match="fails authentication"):
        opened(STORED[:8] + second + first + rest)


@pytest.mark.parametrize("length", [0, 3, 8, 8 + 27, 8 + 1000, len(STORED) - 1, 8 + 3 * (BLOCK + 28) + 28])
def test_a_cut_file_is_found(length: int) -> None:
    def read_all() -> None:
        source = opened(STORED[:length])
        source.read(0, source.size())

    with pytest.raises(CorruptFileError):
        read_all()


def test_blocks_cut_off_the_end_are_found_by_the_length_from_elsewhere() -> None:
    class Trusted(MemorySource):
        def size(self) -> int:
            return len(STORED)

    source = decrypting_source(Trusted(STORED[: 8 + 2 * (BLOCK + 28)]), KEY)
    with pytest.raises(CorruptFileError):
        source.read(0, len(PLAIN))


def test_a_file_that_is_not_encrypted_is_told() -> None:
    with pytest.raises(CorruptFileError, match="is it encrypted at all"):
        opened(b"Obj\x01" + bytes(100))


@pytest.mark.parametrize("length", [0, -1])
def test_impossible_block_lengths_are_refused(length: int) -> None:
    data = b"AGS1" + length.to_bytes(4, "little", signed=True) + bytes(100)
    with pytest.raises(CorruptFileError, match=f"blocks have {length} bytes"):
        opened(data)


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1), (len(PLAIN), 1), (1, len(PLAIN))])
def test_ranges_outside_are_refused(offset: int, length: int) -> None:
    with pytest.raises(CorruptFileError, match="are asked for"):
        opened(STORED).read(offset, length)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has 5 bytes; AES-GCM takes one of 16, 24, 32"):
        encrypting_sink(MemorySink(), Encryption(key=b"short"))


def test_an_aborted_stream_leaves_nothing() -> None:
    sink = MemorySink()
    stream = encrypting_sink(sink, KEY).create()
    stream.write(PLAIN)
    stream.abort()
    assert sink.data is None


def test_a_taken_location_is_refused() -> None:
    sink = MemorySink()
    sink.data = b"old"
    with pytest.raises(FileAlreadyExistsError):
        encrypting_sink(sink, KEY).create()


def test_avro_files_are_encrypted_as_a_whole() -> None:
    schema = Schema(NestedField(1, "a", BinaryType(), required=True))
    values = [os.urandom(200_000) for _ in range(12)]
    content, result = written(schema, [pa.record_batch({"a": pa.array(values)})], encryption=KEY)
    assert result.size_bytes == len(content)
    assert content[:4] == b"AGS1"
    with opened(content).open() as file:
        assert [row["a"] for row in stored_rows(file)] == values


def test_without_the_library_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['cryptography.exceptions'] = None\n"
        "from formatkit.contract import Encryption\n"
        "from formatkit.errors import UnsupportedError\n"
        "from formatkit.formats.avro.encryption import encrypting_sink\n"
        "from formatkit.io import MemorySink\n"
        "try:\n    encrypting_sink(MemorySink(), Encryption(key=bytes(16)))\n"
        "except UnsupportedError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "formatkit[encryption]" in run.stdout
