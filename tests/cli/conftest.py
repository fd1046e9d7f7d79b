from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from formatkit.cli.app import run
from support.shop import Command, Outcome, Shop

OLD_ROWS = pa.table({"Id": pa.array([1, 2, None], pa.int64()), "name": ["a", None, "\x1b[31mred"]})
NEW_ROWS = pa.table({"Id": list(range(100, 150)), "name": [f"n{number}" for number in range(50)]})


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str) -> Outcome:
        code = run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder: Path = tmp_path_factory.mktemp("shop")
    uri, warehouse = f"sqlite:///{folder}/catalog.db", folder.as_uri()
    with load_catalog("shop", type="sql", uri=uri, warehouse=warehouse) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.orders", schema=OLD_ROWS.schema)
        table.append(OLD_ROWS)
        table.append(NEW_ROWS)
        yield Shop(table, ("--catalog", "shop", "-p", "type=sql", "--catalog-uri", uri, "--warehouse", warehouse))
