from __future__ import annotations

from pathlib import Path

import pytest

from support.streams import StreamTables


@pytest.fixture
def tables(tmp_path: Path) -> StreamTables:
    return StreamTables(tmp_path)
