from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from formatkit.integrations.pyiceberg import install, installed
from support.iceberg_tables import new_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> InMemoryCatalog:
    return new_catalog(tmp_path)


@pytest.fixture
def formatkit_in_pyiceberg() -> Iterator[None]:
    with install():
        yield
    assert not installed()
