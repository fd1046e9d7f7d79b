"""The format works once its package is installed."""

from pathlib import Path

import pyarrow as pa

import formatkit


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Rows with nulls and nesting, through the entry point."""
    rows = pa.table({"id": [1, None], "tags": [["a", None], []], "at": [{"x": 0.5}, None]})
    formatkit.write_file(tmp_path / "rows.jsonl", rows)
    assert formatkit.read_file(tmp_path / "rows.jsonl").to_arrow().to_pylist() == rows.to_pylist()
