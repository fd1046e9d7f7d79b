from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from support.iceberg_tables import columns
from support.object_store import BUCKET, ObjectStore, SlowStore, server_program, slow_store, start_object_store


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    if server_program() is None and sys.platform != "linux":
        pytest.skip("the object store is not built for this system")
    with start_object_store(tmp_path_factory.mktemp("objects")) as store:
        yield store


@pytest.fixture(scope="session")
def way(object_store: ObjectStore) -> Iterator[SlowStore]:
    with slow_store(object_store) as slow:
        yield slow


@pytest.fixture
def store(way: SlowStore) -> SlowStore:
    """The object store, fast and reliable until a test says otherwise."""
    way.set()
    return way


@pytest.fixture
def catalog(store: SlowStore) -> Iterator[Catalog]:
    """An empty catalog whose tables are in the object store."""
    made = SqlCatalog(
        "objects",
        uri="sqlite:///:memory:",
        warehouse=f"s3://{BUCKET}/{uuid4()}",
        **{"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"},
        **store.properties,
    )
    made.create_namespace("db")
    yield made
    made.close()


@pytest.fixture(scope="session")
def known_tables() -> dict[str, Table]:
    return {}


@pytest.fixture
def filled(catalog: Catalog, known_tables: dict[str, Table]) -> Callable[[str], Table]:
    """Makes a table of a format, or finds it: four files of 1.3 MB. It is for reading only."""

    def table_of(file_format: str) -> Table:
        if file_format not in known_tables:
            known_tables[file_format] = _filled(catalog, file_format)
        return known_tables[file_format]

    return table_of


def _filled(catalog: Catalog, file_format: str, files: int = 4, rows: int = 20_000) -> Table:
    random = np.random.default_rng(1)
    names = [f"c{number}" for number in range(7)]
    table = catalog.create_table("db.filled", schema=columns(id=pa.int64(), **dict.fromkeys(names, pa.float64())))
    for number in range(files):
        numbers = {name: random.random(rows) for name in names}
        formatkit.append(table, pa.table({"id": range(number * rows, (number + 1) * rows), **numbers}), file_format)
    return table
