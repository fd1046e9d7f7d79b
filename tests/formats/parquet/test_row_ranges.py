"""Rows that a mask marks are found, however the mask is stored."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from formatkit.formats.parquet.row_ranges import marked_rows


@given(
    st.integers(0, 400), st.sampled_from([0.0, 0.01, 0.3]), st.sampled_from([0.0, 0.5]), st.integers(0, 9), st.randoms()
)
def test_marked_rows_are_those_that_are_true(
    count: int, marked: float, nulls: float, skipped: int, rng: random.Random
) -> None:
    values = [None if rng.random() < nulls else rng.random() < marked for _ in range(count)]
    mask = pa.array(values, pa.bool_())[skipped:]
    assert marked_rows(mask).tolist() == [row for row, value in enumerate(values[skipped:]) if value]


def test_bits_behind_the_last_row_do_not_count() -> None:
    bits = pa.py_buffer(np.array([0, 0, 0, 0, 0xF2], np.uint8).tobytes())
    assert marked_rows(pa.BooleanArray.from_buffers(pa.bool_(), 35, [None, bits])).tolist() == [33]
