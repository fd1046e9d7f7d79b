"""Scans with a format and a batch type that formatkit has never heard of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

import formatkit
from formatkit.contract import ByteSource, Capability, OpenOptions
from formatkit.errors import ContractViolationError, FormatNotRegisteredError, UnsupportedError
from formatkit.registry import FormatRegistry
from support.iceberg_tables import append_data_files, columns, data_file, write_rows
from support.rowbatch import RowBatch, RowOps
from support.rowformat import RowFile

CONTENT = [(1, "a"), (2, None), (3, "c"), (None, "d")]
FILE_SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))


class RowFormat:
    file_format = "rows"
    batch_type: type = RowBatch
    capabilities: frozenset[Capability] = frozenset()
    extensions: tuple[str, ...] = (".rows",)
    magic = b""

    def __init__(self) -> None:
        self.files: list[RowFile] = []

    def reader(self) -> RowFormat:
        return self

    def writer(self) -> Any:
        raise UnsupportedError("rows cannot be written")

    def open(self, source: ByteSource, options: OpenOptions) -> RowFile:
        self.files.append(RowFile(FILE_SCHEMA, CONTENT))
        return self.files[-1]


@pytest.fixture
def plugin() -> RowFormat:
    return RowFormat()


@pytest.fixture
def registry(plugin: RowFormat) -> FormatRegistry:
    made = FormatRegistry()
    made.register(plugin)
    made.register_batch(RowOps())
    return made


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    created = catalog.create_table("db.rows", schema=columns(id=pa.int64(), name=pa.string()))
    locations = [write_rows(created, f"{number}.rows", pa.table({"x": [1]})) for number in range(2)]
    return append_data_files(
        created, *(data_file(created, location, len(CONTENT), file_format="ROWS") for location in locations)
    )


def rows(scan: formatkit.Scan[RowBatch]) -> list[tuple[Any, ...]]:
    return [row for batch in scan.to_batches() for row in batch.rows]


@pytest.mark.parametrize("threads", [1, 2])
def test_any_batch_type_flows_through(table: Table, registry: FormatRegistry, plugin: RowFormat, threads: int) -> None:
    scan = formatkit.scan(
        table, "id >= 2", select=("name", "_pos"), registry=registry, batch_type=RowBatch, threads=threads
    )
    assert rows(scan) == [(None, 1), ("c", 2)] * 2
    assert scan.count() == 4
    assert all(file.open_reads == 0 for file in plugin.files)


def test_a_limit_slices_any_batch_type(table: Table, registry: FormatRegistry) -> None:
    scan = formatkit.scan(table, limit=3, registry=registry, batch_type=RowBatch)
    assert rows(scan) == CONTENT[:3]


def test_only_arrow_batches_become_arrow_tables(table: Table, registry: FormatRegistry) -> None:
    scan = formatkit.scan(table, registry=registry, batch_type=RowBatch)
    with pytest.raises(UnsupportedError, match=r"RowBatch.*to_batches"):
        scan.to_arrow()
    with pytest.raises(UnsupportedError):
        pa.table(scan)


def test_the_default_registry_does_not_know_the_stranger(table: Table) -> None:
    with pytest.raises(FormatNotRegisteredError, match="'rows'"):
        formatkit.scan(table)


def test_a_plugin_that_returns_another_batch_type_is_found_out(table: Table, plugin: RowFormat) -> None:
    plugin.batch_type = pa.RecordBatch
    registry = FormatRegistry()
    registry.register(plugin)
    registry.register_batch(formatkit.default_registry().batches(pa.RecordBatch))
    with pytest.raises(ContractViolationError, match="RowBatch"):
        formatkit.scan(table, registry=registry).to_arrow()


def test_a_file_of_a_strange_format_is_read(registry: FormatRegistry) -> None:
    scan = formatkit.read_file(b"", registry=registry, batch_type=RowBatch, file_format="rows")
    assert rows(scan) == CONTENT
