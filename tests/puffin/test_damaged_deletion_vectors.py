"""Bytes that are no deletion vector are refused, whatever they claim, and cost no more than their length."""

from __future__ import annotations

import struct
import tracemalloc
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formatkit.errors import CorruptFileError
from formatkit.io import MemorySource
from formatkit.puffin import DeletionVector, read_deletion_vector
from support.damage import damages
from support.deletion_vectors import framed

MIXED = np.concatenate(
    [
        [5, 7, 9],
        np.arange(70_000, 72_000),
        np.arange(131_072, 150_000, 2),
        np.arange(200_000, 203_000, 3),
        2**32 + np.arange(0, 100_000, 7),
    ]
)


def with_bitmap(*bitmaps: tuple[int, bytes], count: int | None = None) -> bytes:
    pieces = [struct.pack("<I", key) + bitmap for key, bitmap in bitmaps]
    number = struct.pack("<Q", len(bitmaps) if count is None else count)
    return framed(bytes.fromhex("d1d33964") + number + b"".join(pieces))


def without_runs(*containers: tuple[int, int, bytes], count: int | None = None, shift: int = 0) -> bytes:
    """A bitmap of (key, cardinality, content), whose offsets are all wrong by `shift`."""
    number = len(containers) if count is None else count
    descriptions = b"".join(struct.pack("<HH", key, cardinality - 1) for key, cardinality, _ in containers)
    offsets, at = b"", 8 + 8 * len(containers) + shift
    for _, _, content in containers:
        offsets += struct.pack("<I", at)
        at += len(content)
    return struct.pack("<II", 12346, number) + descriptions + offsets + b"".join(each[2] for each in containers)


def one_run_container(cardinality: int, *words: int) -> bytes:
    described = struct.pack("<IBHH", 12347, 1, 0, cardinality - 1)
    return described + struct.pack(f"<{len(words)}H", *words)


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def four_run_containers(*offsets: int) -> bytes:
    """The four values from 5 on in each of four containers, which say that they are elsewhere."""
    described = struct.pack("<IB8H", 12347 | 3 << 16, 15, *(each for key in range(4) for each in (key, 3)))
    return described + struct.pack("<4I", *offsets) + 4 * words(1, 5, 3)


GOOD = without_runs((0, 2, words(3, 4)))

DAMAGED = {
    "bytes wanted": (b"\0\0\0", "4 bytes are wanted where 3 are left"),
    "no content": (framed(b""), "begins with  instead of d1d33964"),
    "half a magic": (framed(b"\xd1\xd3"), "begins with d1d3 instead of"),
    "another magic": (framed(b"\xd1\xd3\x39\x65" + bytes(8)), "begins with d1d33965"),
    "a length that is not its own": (b"\0\0\0\x20" + with_bitmap((0, GOOD))[4:], "but says that it has 40"),
    "another checksum": (with_bitmap((0, GOOD))[:-1] + b"\0", "its checksum is"),
    "fewer bitmaps than it says": (with_bitmap((0, GOOD), count=2), "4 bytes are wanted where 0 are left"),
    "more bitmaps than could be": (with_bitmap((0, GOOD), count=2**64 - 1), "4 bytes are wanted where 0 are left"),
    "more bitmaps than it says": (with_bitmap((0, GOOD), (1, GOOD), count=1), "24 bytes follow the last bitmap"),
    "a key twice": (with_bitmap((1, GOOD), (1, GOOD)), "the key 1 follows 1"),
    "keys that descend": (with_bitmap((2, GOOD), (1, GOOD)), "the key 1 follows 2"),
    "a key beyond Java's": (with_bitmap((2**31 - 1, GOOD)), "the key 2147483647 follows -1"),
    "a negative key": (with_bitmap((2**32 - 1, GOOD)), "the key 4294967295 follows -1"),
    "another cookie": (with_bitmap((0, struct.pack("<II", 12345, 0))), "the cookie 12345"),
    "too many containers": (with_bitmap((0, without_runs(count=65537))), "claims 65537 containers"),
    "containers that are not there": (with_bitmap((0, without_runs(count=65536))), "262144 bytes are wanted"),
    "containers out of order": (
        with_bitmap((0, without_runs((1, 1, words(3)), (0, 1, words(3))))),
        "keys of the containers do not ascend",
    ),
    "offsets elsewhere": (with_bitmap((0, without_runs((0, 1, words(3)), shift=2))), "not where the offsets say"),
    "an array that descends": (with_bitmap((0, without_runs((0, 2, words(4, 3))))), "array container do not ascend"),
    "a value twice": (with_bitmap((0, without_runs((0, 2, words(4, 4))))), "array container do not ascend"),
    "an array cut short": (with_bitmap((0, without_runs((0, 2, words(4))))), "4 bytes are wanted where 2 are left"),
    "a bitmap with other bits": (
        with_bitmap((0, without_runs((0, 5000, b"\xff" * 626 + bytes(8192 - 626))))),
        "another number of bits",
    ),
    "a bitmap cut short": (with_bitmap((0, without_runs((0, 5000, b"\xff" * 625)))), "8192 bytes are wanted"),
    "no runs": (with_bitmap((0, one_run_container(1, 0))), "missing or overlap"),
    "runs that overlap": (with_bitmap((0, one_run_container(8, 2, 5, 3, 8, 3))), "missing or overlap"),
    "runs that descend": (with_bitmap((0, one_run_container(2, 2, 9, 0, 5, 0))), "missing or overlap"),
    "a run beyond its container": (with_bitmap((0, one_run_container(10, 1, 65530, 9))), "beyond its container"),
    "runs of another number": (with_bitmap((0, one_run_container(9, 1, 5, 9))), "another number of positions"),
    "runs cut short": (with_bitmap((0, one_run_container(9, 40000, 5, 8))), "160002 bytes are wanted where 6"),
    "runs before the bitmap": (with_bitmap((0, four_run_containers(0, 0, 0, 0))), "begins outside of the bitmap"),
    "runs behind the bitmap": (with_bitmap((0, four_run_containers(37, 43, 49, 61))), "begins outside of the bitmap"),
    "runs elsewhere": (with_bitmap((0, four_run_containers(37, 43, 49, 49))), "not where the offsets say"),
    "runs without a number": (with_bitmap((0, one_run_container(9))), "begins outside of the bitmap"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_refused_by_name(name: str) -> None:
    blob, message = DAMAGED[name]
    with pytest.raises(CorruptFileError, match=message) as caught:
        DeletionVector.parse(blob, "s3://bucket/deletes.puffin")
    assert caught.value.location == "s3://bucket/deletes.puffin"  # type: ignore[attr-defined]


def test_the_builders_of_damage_build_good_bitmaps_too() -> None:
    assert DeletionVector.parse(with_bitmap((0, GOOD), (1, GOOD)), "x").positions.tolist() == [
        3,
        4,
        2**32 + 3,
        2**32 + 4,
    ]
    four = with_bitmap((0, four_run_containers(37, 43, 49, 55)))
    assert DeletionVector.parse(four, "x").positions.tolist() == [65536 * i + j for i in range(4) for j in range(5, 9)]
    runs = with_bitmap((0, one_run_container(12, 2, 5, 8, 14, 2)))
    assert DeletionVector.parse(runs, "x").positions.tolist() == [*range(5, 14), *range(14, 17)]


@given(st.integers(0, 2**32))
def test_damage_anywhere_is_noticed(seed: int) -> None:
    blob = DeletionVector.from_positions(MIXED).to_bytes()
    for damage in damages(blob, Random(seed), 5):
        if damage.data == blob:
            continue
        with pytest.raises(CorruptFileError):
            DeletionVector.parse(damage.data, damage.what)


@given(st.integers(0, 2**32))
def test_damage_behind_a_right_checksum_is_noticed_or_is_another_vector(seed: int) -> None:
    content = DeletionVector.from_positions(MIXED).to_bytes()[4:-4]
    for damage in damages(content, Random(seed), 5):
        try:
            vector = DeletionVector.parse(framed(damage.data), damage.what)
        except CorruptFileError:
            continue
        positions = vector.positions
        assert len(positions) == vector.cardinality
        assert (positions[1:] > positions[:-1]).all()


def test_a_short_blob_that_deletes_everything_stays_short() -> None:
    count = 65536
    header = struct.pack("<I", 12347 | (count - 1) << 16) + b"\xff" * (count // 8)
    described = np.empty(2 * count, "<u2")
    described[::2], described[1::2] = np.arange(count), 65535
    first = len(header) + 8 * count
    offsets = (first + 6 * np.arange(count)).astype("<u4")
    content = np.tile(np.array([1, 0, 65535], "<u2"), count)
    blob = with_bitmap((0, header + described.tobytes() + offsets.tobytes() + content.tobytes()))
    tracemalloc.start()
    try:
        vector = DeletionVector.parse(blob, "here")
        assert vector.cardinality == 2**32
        assert vector.between(2**31, 2**31 + 5).tolist() == list(range(2**31, 2**31 + 5))
        with pytest.raises(CorruptFileError, match="holds 4294967296 positions, but the manifest says 10"):
            read_deletion_vector(MemorySource(blob), 0, len(blob), cardinality=10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(blob)
