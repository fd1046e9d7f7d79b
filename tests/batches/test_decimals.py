"""Decimals of more digits than their type has are found wherever they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from formatkit.batches.arrow.decimals import check_decimals, decimals_fit, holds_decimals
from formatkit.errors import InvalidDataError

PRECISIONS = (1, 4, 9, 18, 19, 20, 37, 38)


def decimals(unscaled: list[int | None], precision: int, scale: int = 0) -> Any:
    """An array of these values, whether they fit or not."""
    content = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in unscaled)
    validity = pa.array([value is not None for value in unscaled]).buffers()[1]
    return pa.Array.from_buffers(
        pa.decimal128(precision, scale), len(unscaled), [validity, pa.py_buffer(content)], unscaled.count(None)
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_value_of_a_type_fits_and_the_next_does_not(precision: int, sign: int) -> None:
    limit = 10**precision
    assert decimals_fit(decimals([0, None, sign * (limit - 1)], precision))
    assert not decimals_fit(decimals([0, None, sign * limit], precision))


@pytest.mark.parametrize("unscaled", [2**64 + 1, 2**64 - 1, -(2**64) + 1, 2**127 - 1, -(2**127)])
@pytest.mark.parametrize("precision", [4, 18])
def test_a_value_whose_low_word_looks_small_does_not_fit(unscaled: int, precision: int) -> None:
    assert not decimals_fit(decimals([unscaled], precision))


def test_what_lies_under_a_null_does_not_count() -> None:
    content = pa.py_buffer((10**9).to_bytes(16, "little") + (5).to_bytes(16, "little"))
    array = pa.Array.from_buffers(pa.decimal128(4, 2), 2, [pa.py_buffer(b"\x02"), content], 1)
    assert decimals_fit(array)
    assert array.to_pylist()[0] is None


def test_a_slice_is_judged_by_its_own_values() -> None:
    array = decimals([5, 10**4], 4)
    assert decimals_fit(array.slice(0, 1))
    assert not decimals_fit(array.slice(1, 1))


@pytest.mark.parametrize("unscaled", [7, 10**4])
def test_nested_values_are_found(unscaled: int) -> None:
    flat = decimals([1, unscaled], 4)
    offsets: Any = [0, 1, 2]
    inside: list[Any] = [
        pa.StructArray.from_arrays([flat], ["x"]),
        pa.ListArray.from_arrays(offsets, flat),
        pa.MapArray.from_arrays(offsets, flat, pa.array(["a", "b"])),
        pa.MapArray.from_arrays(offsets, pa.array(["a", "b"]), pa.ListArray.from_arrays(offsets, flat)),
    ]
    for column in inside:
        assert holds_decimals(column.type)
        assert decimals_fit(column) is (unscaled == 7)


def test_the_error_names_column_type_and_value() -> None:
    with pytest.raises(InvalidDataError, match=r"column 'price' holds .* than decimal\(4, 2\) has: 123\.45; leave"):
        check_decimals(decimals([1, 12345], 4, 2), "price")
