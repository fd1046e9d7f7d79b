from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io import pyarrow as pyiceberg_io
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import FileFormat
from pyiceberg.table import DataScan, Transaction
from pyiceberg.table.metadata import TableMetadataV3

from formatkit.errors import ConfigurationError
from formatkit.integrations.pyiceberg import install, installed, uninstall
from formatkit.registry import FormatRegistry, default_registry
from support.animals import ANIMALS, new_table

_TOUCHED = (pyiceberg_io, ArrowScan, DataScan, Transaction, TableMetadataV3, FileFormat, FileFormatFactory)


def state_of_pyiceberg() -> list[Any]:
    return [
        *({name: value for name, value in vars(each).items() if name != "__warningregistry__"} for each in _TOUCHED),
        list(FileFormat),
        dict(FileFormatFactory._registry),
    ]


@contextmanager
def unchanged() -> Iterator[None]:
    before = state_of_pyiceberg()
    yield
    assert state_of_pyiceberg() == before
    assert not installed()


def test_uninstalling_gives_pyiceberg_back_exactly_what_it_had() -> None:
    with unchanged():
        before = state_of_pyiceberg()
        install()
        assert installed()
        assert state_of_pyiceberg() != before
        uninstall()


def test_installing_twice_changes_nothing_more() -> None:
    with unchanged():
        install()
        first = state_of_pyiceberg()
        install()
        assert state_of_pyiceberg() == first
        uninstall()


def test_uninstalling_where_nothing_is_installed_does_nothing() -> None:
    with unchanged():
        uninstall()


def test_a_block_undoes_what_it_did() -> None:
    with unchanged(), install():
        assert installed()


def test_a_block_inside_another_leaves_the_outer_one_alone() -> None:
    with unchanged(), install():
        with install():
            pass
        assert installed()


def test_a_block_that_fails_is_undone() -> None:
    with unchanged(), pytest.raises(RuntimeError, match="on purpose"), install():
        raise RuntimeError("on purpose")


def test_the_end_of_a_block_does_not_undo_a_later_installation() -> None:
    with unchanged():
        with install():
            uninstall()
            install()
        assert installed()
        uninstall()


def test_what_another_library_replaced_since_is_not_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with unchanged(), install():
        with monkeypatch.context() as patch:
            patch.setattr(DataScan, "count", lambda self: 7)
            with pytest.raises(ConfigurationError, match=r"another library has replaced DataScan\.count"):
                uninstall()
        assert installed()


def test_threads_may_install_and_uninstall_at_will() -> None:
    def change(turn: int) -> None:
        (uninstall if turn % 3 else install)()

    with unchanged():
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(change, range(300)))
        uninstall()


def test_tables_that_are_loaded_already_change_too(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, file_format="avro")
    scan = table.scan()
    with pytest.raises(ValueError, match="No writer registered"):
        table.append(ANIMALS)
    with install():
        table.append(ANIMALS)
        assert scan.count() == 0
        assert table.scan().count() == len(ANIMALS)
    with pytest.raises(ValueError, match="Unsupported file format"):
        table.scan().to_arrow()


def test_all_installed_formats_become_members_of_pyicebergs_list() -> None:
    with unchanged(), install():
        assert {each.value.lower() for each in FileFormat} >= set(default_registry().names())
        assert FileFormat("vortex") is FileFormat["VORTEX"]
        assert repr(FileFormat("lance")) == "FileFormat.LANCE"


def test_a_registry_of_ones_own_decides_what_there_is() -> None:
    registry = FormatRegistry()
    registry.register(default_registry().plugin("orc", default_registry().plugins("orc")[0].batch_type))
    with unchanged(), install(registry):
        assert FileFormatFactory.available_formats() == [FileFormat.PARQUET, FileFormat.ORC]
