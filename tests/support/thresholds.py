"""Sizes at which the Parquet reader changes its ways, made so small that tiny files show all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from formatkit.formats.parquet import column_stream, selective

__all__ = ["picking_pages"]


@contextmanager
def picking_pages(kept_bytes: int = 0) -> Iterator[None]:
    """Row groups of any size are read by picking pages, a few rows at a time."""
    with (
        patch.multiple(selective, _SMALL_ROW_GROUP=0, _KEPT_BYTES=kept_bytes),
        patch.multiple(column_stream, _MIN_DECODED_ROWS=1, _MAX_DECODED_ROWS=3, _WORTHWHILE=2.0),
    ):
        yield
