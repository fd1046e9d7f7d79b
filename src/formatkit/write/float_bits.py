"""Floats as integers that tell apart what Iceberg tells apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from formatkit.batches.arrow.types import Column

__all__ = ["float_bits", "ordered_float_bits"]


def float_bits(column: Column) -> Column:
    """The bits of the values, those of all NaN alike."""
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    return pa.array(values.view(f"i{values.itemsize}"), mask=nulls)


def ordered_float_bits(column: Column) -> Column:
    """Integers that are in the order of the values, with −0.0 below 0.0 and NaN above everything else."""
    encoded = float_bits(column)
    bits = encoded.fill_null(0).to_numpy(zero_copy_only=False)
    ordered = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    return pa.array(ordered, mask=encoded.is_null().to_numpy(zero_copy_only=False))
