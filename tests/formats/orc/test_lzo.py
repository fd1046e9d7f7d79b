"""Blocks of LZO, made instruction by instruction, and read as pyarrow reads them."""

from __future__ import annotations

import io
from contextlib import suppress
from random import Random

import pyarrow as pa
import pyarrow.orc
import pytest

from formatkit.formats.orc.compression import Codec, CompressionError, decompress
from support.mutations.orc_file import OrcFile
from support.orc_files import foreign, open_bytes, read_rows

LZO = 3
END = b"\x11\x00\x00"


class Encoder:
    """Makes a block, and knows what is in it."""

    def __init__(self, first: bytes) -> None:
        self.content = bytearray(first)
        if len(first) <= 238:
            self.block = bytearray((17 + len(first),)) + first
        else:
            self.block = bytearray((0,)) + _more(len(first) - 3, 15) + first
        self._literals = min(len(first), 4)

    def literals(self, run: bytes) -> None:
        """A run, which may come only after a copy without literals."""
        count = len(run) - 3
        self.block += (bytes((count,)) if count <= 15 else b"\x00" + _more(count, 15)) + run
        self.content += run
        self._literals = 4

    def copy(self, length: int, distance: int, after: bytes) -> None:
        # The shortest copies need literals before them.
        if length == 2 and not (self._literals in (1, 2, 3) and distance <= 1024):
            length = 3
        self.block += self._head(length, distance, len(after)) + after
        for _ in range(length):
            self.content.append(self.content[-distance])
        self.content += after
        self._literals = len(after)

    @property
    def takes_run(self) -> bool:
        return self._literals == 0

    def _head(self, length: int, distance: int, after: int) -> bytes:
        if self._literals in (1, 2, 3) and length == 2 and distance <= 1024:
            return bytes(((distance - 1 & 3) << 2 | after, distance - 1 >> 2))
        if self._literals == 4 and length == 3 and 2049 <= distance <= 3072:
            return bytes(((distance - 2049 & 3) << 2 | after, distance - 2049 >> 2))
        if 3 <= length <= 8 and distance <= 2048:
            near = distance - 1
            kind = 0x40 | length - 3 << 5 if length <= 4 else 0x80 | length - 5 << 5
            return bytes((kind | (near & 7) << 2 | after, near >> 3))
        if distance <= 1 << 14:
            return _counted(0x20, length - 2, 31) + (distance - 1 << 2 | after).to_bytes(2, "little")
        far = distance - (1 << 14)
        return _counted(0x10 | far >> 14 << 3, length - 2, 7) + ((far & 0x3FFF) << 2 | after).to_bytes(2, "little")


def _counted(kind: int, count: int, most: int) -> bytes:
    return bytes((kind | count,)) if count <= most else bytes((kind,)) + _more(count, most)


def _more(count: int, most: int) -> bytes:
    zeros, last = divmod(count - most - 1, 255)
    return bytes(zeros) + bytes((last + 1,))


def random_block(seed: int, *, shortest: int = 2, farthest: int = 0xBFFF) -> Encoder:
    rng = Random(seed)
    encoder = Encoder(rng.randbytes(rng.choice([1, 3, 4, 200, 300, 40_000])))
    for _ in range(300):
        if encoder.takes_run and rng.random() < 0.5:
            encoder.literals(rng.randbytes(rng.choice([4, 18, 19, 300, 600])))
        reach = min(len(encoder.content), farthest)
        distance = rng.choice([1, *(rng.randint(1, min(reach, most)) for most in (1024, 3072, reach))])
        length = max(rng.choice([2, 3, 3, 4, 8, 9, 33, 34, 300, 700]), shortest)
        encoder.copy(length, distance, rng.randbytes(rng.randint(0, 3)))
    encoder.block += END
    return encoder


@pytest.mark.parametrize("seed", range(30))
def test_blocks_of_every_instruction_are_read(seed: int) -> None:
    made = random_block(seed)
    chunk = (len(made.block) << 1).to_bytes(3, "little") + made.block
    assert decompress(memoryview(chunk), Codec.LZO, 1 << 20) == made.content


@pytest.mark.parametrize("seed", range(5))
def test_files_are_read_as_pyarrow_reads_them(seed: int) -> None:
    # pyarrow misreads other copies, which aircompressor reads, the library of Java's ORC.
    made = random_block(seed, shortest=3, farthest=2048)
    content = bytes(made.content)
    table = pa.table({"b": [content[: len(content) // 2], content[len(content) // 2 :]]})
    file = OrcFile(foreign(table, compression="zlib", dictionary_key_size_threshold=0.0))
    file.postscript["compression"].value = LZO
    file.postscript["compressionBlockSize"].value = 1 << 20
    (stripe,) = file.stripes
    records = [child for child in stripe.footer.value if child.key == "streams"]
    for place, record in enumerate(records):
        if record["kind"].value == 1:
            stripe.streams[place] = (len(made.block) << 1).to_bytes(3, "little") + bytes(made.block)
        elif place not in stripe.indexes:
            plain = file._plain(stripe.streams[place])
            stripe.streams[place] = (len(plain) << 1 | 1).to_bytes(3, "little") + plain
    data = file.to_bytes()
    assert pyarrow.orc.read_table(io.BytesIO(data)) == table
    assert read_rows(open_bytes(data)) == table.to_pylist()


@pytest.mark.parametrize(
    "block",
    [b"\x00", b"\x14ab", b"\x12a\x40\x01", b"\x12a\x3f", b"\x00\x00\x00\x00", b"\x15abcd\x0f"],
    ids=["head only", "literals cut", "before the beginning", "copy cut", "length cut", "distance cut"],
)
def test_a_damaged_block_is_an_error(block: bytes) -> None:
    with pytest.raises(CompressionError, match="LZO"):
        decompress(memoryview((len(block) << 1).to_bytes(3, "little") + block), Codec.LZO, 1 << 16)


def test_a_block_that_holds_more_than_the_postscript_says_is_an_error() -> None:
    made = random_block(0)
    chunk = (len(made.block) << 1).to_bytes(3, "little") + made.block
    with pytest.raises(CompressionError, match="more than 1000 bytes"):
        decompress(memoryview(chunk), Codec.LZO, 1000)


def test_any_damage_of_a_block_is_an_error_or_content() -> None:
    block, rng = bytes(random_block(3).block), Random(4)
    for _ in range(300):
        place = rng.randrange(len(block))
        damaged = block[:place] + rng.randbytes(1) + block[place + 1 :]
        with suppress(CompressionError):
            decompress(memoryview((len(damaged) << 1).to_bytes(3, "little") + damaged), Codec.LZO, 1 << 20)
