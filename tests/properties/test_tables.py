"""Whatever is done to a table, and in whatever order, it holds what a list of rows would hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from support.table_lives import Life

# 50 lives in CI; each has several steps, and each step is read in several ways.
SELDOM = settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]


@SELDOM
@given(st.data())
def test_a_table_holds_what_a_list_of_rows_would(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Life(data, Path(directory)).live()
