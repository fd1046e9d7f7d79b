"""The places of pages are read in one go where that can be done, and always as Thrift has them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formatkit.formats.parquet.pruning.offset_index import page_locations
from formatkit.formats.parquet.thrift import Field, ThriftError, decode_struct, encode, i32, i64, list_of

LOCATIONS = st.lists(
    st.tuples(st.integers(-(2**62), 2**62 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**40)), max_size=40
)


def stored(locations: list[tuple[int, int, int]], *others: Field) -> bytes:
    pages = [encode(i64(1, offset), i32(2, size), i64(3, row)) for offset, size, row in locations]
    return encode(list_of(1, pages), *others)


def by_thrift(data: bytes) -> list[list[int]] | None:
    try:
        found = [(page[1], page[2], page[3]) for page in decode_struct(data)[0][1]]
        return np.array(found, np.int64).reshape(-1, 3).tolist()
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


@given(LOCATIONS, st.booleans())
def test_locations_are_those_that_were_stored(locations: list[tuple[int, int, int]], lengths: bool) -> None:
    data = stored(locations, *([list_of(2, [])] if lengths else []))
    assert page_locations(data).tolist() == [list(location) for location in locations]


def test_fields_that_nobody_knows_do_not_matter() -> None:
    data = encode(list_of(1, [encode(i64(1, 4), i32(2, 5), i64(3, 0), i32(4, 7))] * 20))
    assert page_locations(data).tolist() == [[4, 5, 0]] * 20


@pytest.mark.parametrize("pages", [3, 40])
def test_damaged_indexes_are_read_as_thrift_has_them_or_not_at_all(pages: int) -> None:
    rng = random.Random(pages)
    data = stored([(4 + 1000 * number, 1000, 77 * number) for number in range(pages)])
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(rng.choice([1, 1, 2])):
            damaged[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(damaged[: rng.choice([len(data), len(data), rng.randrange(len(data))])])
        try:
            found = page_locations(cut).tolist()
        except ThriftError:
            found = None
        expected = by_thrift(cut)
        # What stands behind the locations is not looked at where they are read in one go.
        assert found == expected or expected is None
