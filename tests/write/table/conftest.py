"""What the tests of writing tables share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from support.iceberg_tables import new_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[InMemoryCatalog]:
    catalog = new_catalog(tmp_path)
    yield catalog
    catalog.close()
