"""Tables in a catalog whose database and files are on disk, so that other processes find them, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from formatkit.write.commit import disable_version3, enable_version3


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=(tmp_path / "warehouse").as_uri())
    made.create_namespace("db")
    enable_version3()
    yield made
    disable_version3()
    made.close()
