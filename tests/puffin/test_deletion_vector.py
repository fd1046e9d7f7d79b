"""Deletion vectors: sets of positions in and out, and the bytes that other implementations write and read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap64

from formatkit.errors import InvalidDataError
from formatkit.puffin import DeletionVector
from support.deletion_vectors import framed

MAGIC = bytes.fromhex("d1d33964")
LARGEST = ((2**31 - 2) << 32) + 2**31


def bitmap_of(blob: bytes) -> bytes:
    return blob[8:-4]


def by_roaring(positions: list[int]) -> bytes:
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


stretches = st.one_of(
    st.lists(st.integers(0, 200_000), max_size=50),
    st.lists(st.integers(0, LARGEST), max_size=10),
    st.builds(lambda start, length: range(start, start + length), st.integers(0, 2**33), st.integers(0, 10_000)),
    st.builds(
        lambda start, count, step: range(start, start + count * step, step),
        st.integers(0, 2**33),
        st.integers(4_000, 4_200),
        st.integers(2, 15),
    ),
)
position_sets = st.lists(stretches, max_size=4).map(lambda parts: sorted({each for part in parts for each in part}))


@given(position_sets)
@example([])
@example([5, 6, 7])
@example([65535, 65536])
@example(list(range(65536)))
@example([2**32 - 1, 2**32, LARGEST])
def test_bytes_are_those_of_the_roaring_library(positions: list[int]) -> None:
    assert bitmap_of(DeletionVector.from_positions(positions).to_bytes()) == by_roaring(positions)


@given(position_sets)
@example([])
def test_positions_survive(positions: list[int]) -> None:
    vector = DeletionVector.parse(DeletionVector.from_positions(positions).to_bytes(), "here")
    assert vector.positions.tolist() == positions
    assert vector.positions.dtype == np.int64
    assert vector.cardinality == len(positions)


@given(position_sets)
def test_bitmaps_without_runs_are_read_as_well(positions: list[int]) -> None:
    blob = framed(MAGIC + bytes(BitMap64(positions).serialize()))
    assert DeletionVector.parse(blob, "here").positions.tolist() == positions


@given(position_sets)
def test_the_roaring_library_reads_what_is_written(positions: list[int]) -> None:
    blob = DeletionVector.from_positions(positions).to_bytes()
    assert list(BitMap64.deserialize(bitmap_of(blob))) == positions


@given(position_sets, st.data())
def test_a_part_is_what_lies_between(positions: list[int], data: st.DataObject) -> None:
    anywhere = [st.integers(0, 300_000), st.integers(0, LARGEST + 1)]
    borders = st.one_of(*anywhere, st.sampled_from(positions)) if positions else st.one_of(*anywhere)
    start, stop = data.draw(borders), data.draw(borders)
    found = DeletionVector.from_positions(positions).between(start, stop)
    assert found.tolist() == [each for each in positions if start <= each < stop]


def every_container() -> list[int]:
    """In two bitmaps, each kind of container and those where the choice between kinds is close."""
    positions: list[int] = []
    for base in (0, 2**32):
        positions += [base + 5, base + 7]
        positions += range(base + 65536 + 1, base + 65536 + 1000)
        positions += range(base + 2 * 65536, base + 2 * 65536 + 60000, 3)
        positions += range(base + 3 * 65536, base + 4 * 65536)
        positions += range(base + 4 * 65536, base + 4 * 65536 + 2 * 4096, 2)
        positions += range(base + 5 * 65536, base + 5 * 65536 + 2 * 4097, 2)
        positions += [base + 6 * 65536 + 32 * i + j for i in range(2047) for j in range(3)]
        positions += [base + 7 * 65536 + 32 * i + j for i in range(2048) for j in range(3)]
    return positions


# Written by Java's RoaringBitmap 1.6.10, one `add` a position and `runOptimize`, as Iceberg does it.
JAVA = {
    "empty": ([], "bf18480c", "0000000000000000"),
    "tie between array and run": (
        [5, 6, 7],
        "c4e78d9f",
        "0100000000000000000000003a300000010000000000020010000000050006000700",
    ),
    "alternating": (
        list(range(0, 20, 2)),
        "aae5631e",
        "0100000000000000000000003a300000010000000000090010000000000002000400060008000a000c000e0010001200",
    ),
    "small and large": (
        [100, 101, 2**31 + 99, 2**31 + 100],
        "15eb1c7c",
        "0100000000000000000000003a300000020000000000010000800100180000001c0000006400650063006400",
    ),
    "every container": (every_container(), "fcda1fc0", None),
}


@pytest.mark.parametrize("name", JAVA)
def test_bytes_are_those_of_java(name: str) -> None:
    positions, checksum, bitmap = JAVA[name]
    blob = DeletionVector.from_positions(positions).to_bytes()
    assert blob[-4:].hex() == checksum
    assert int.from_bytes(blob[:4], "big") == len(blob) - 8
    assert blob[4:8].hex() == "d1d33964"
    if bitmap is not None:
        assert bitmap_of(blob).hex() == bitmap
        assert blob == framed(MAGIC + bytes.fromhex(bitmap))


def test_empty_stretches_that_java_writes_are_read() -> None:
    empty = bytes.fromhex("3a30000000000000")
    one = bytes.fromhex("3a3000000100000000000000100000000500")
    bitmap = (3).to_bytes(8, "little")
    for key, content in enumerate((empty, empty, one)):
        bitmap += key.to_bytes(4, "little") + content
    assert DeletionVector.parse(framed(MAGIC + bitmap), "here").positions.tolist() == [2 * 2**32 + 5]


def test_order_and_duplicates_do_not_matter() -> None:
    assert DeletionVector.from_positions(np.array([9, 3, 3, 7, 9])).positions.tolist() == [3, 7, 9]


@pytest.mark.parametrize("kind", [np.int32, np.uint64, np.uint8])
def test_any_whole_number_is_a_position(kind: type[np.integer]) -> None:
    assert DeletionVector.from_positions(np.array([1, 200], kind)).positions.tolist() == [1, 200]


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([-1, 3], "these are from -1 to 3"),
        ([LARGEST + 1], f"from 0 to {LARGEST}"),
        (np.array([2**64 - 1], np.uint64), "from 0 to"),
        ([1.5], "whole numbers, not float64"),
        (np.array([True]), "whole numbers, not bool"),
    ],
)
def test_what_is_no_position_is_refused(positions: list[int], message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        DeletionVector.from_positions(positions)


def test_vectors_can_be_united() -> None:
    united = DeletionVector.from_positions([1, 5]) | DeletionVector.from_positions([5, 2**40])
    assert united == DeletionVector.from_positions([1, 5, 2**40])
    assert united != DeletionVector.from_positions([1, 5])


def test_vectors_cross_process_borders() -> None:
    vector = DeletionVector.from_positions([1, 5, 2**33])
    assert pickle.loads(pickle.dumps(vector)) == vector
    assert repr(vector) == "DeletionVector of 3 positions"
