from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from support.iceberg_tables import new_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> InMemoryCatalog:
    return new_catalog(tmp_path / "warehouse")
