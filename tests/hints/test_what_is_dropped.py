"""Hints of Parquet files that were met, or that writers are known for: they rule nothing out, and are counted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hints.edits import become, remove
from hints.parquet_lies import column_index_lies, offset_index_lies, row_lies

from formatkit.contract import ReadOptions
from formatkit.formats.parquet.pruning.writers import bounds_order
from formatkit.kernel import bind
from support.foreign_parquet import parquet_bytes
from support.mutations.parquet_file import ParquetFile
from support.parquet_reading import open_bytes

ROWS = 10_000
FIELDS: list[pa.Field[Any]] = [pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())]


def parts() -> ParquetFile:
    """A file with two pages of numbers in one row group."""
    numbers = list(range(ROWS))
    table = pa.Table.from_pydict({"a": numbers, "b": [f"b{number:05d}" for number in numbers]}, pa.schema(FIELDS))
    options = {"data_page_size": 20_000, "write_batch_size": 100, "use_dictionary": False, "write_page_index": True}
    return ParquetFile(parquet_bytes(table, **options))


def read(changed: ParquetFile, where: str) -> tuple[list[Any], dict[str, int]]:
    file = open_bytes(changed.to_bytes())
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, where)))
    with result.batches as batches:
        values = [value for batch in batches for value in batch.column(0).to_pylist()]
    return values, {key: count for key, count in result.counters.items() if key.endswith("_dropped")}


def test_a_good_file_has_nothing_to_drop() -> None:
    assert read(parts(), "a = 7000") == ([7000], {})


def test_null_pages_of_a_required_column_are_no_column_index() -> None:
    changed = parts()
    dict(column_index_lies(changed, changed.chunks[0]))["only null pages"]()
    assert read(changed, "a = 7000") == ([7000], {"column_indexes_dropped": 1})


@pytest.mark.parametrize("lie", ["offset index at 1048576", "no locations", "compressed_page_size[0] 1"])
def test_locations_that_do_not_tile_are_no_offset_index(lie: str) -> None:
    changed = parts()
    dict(offset_index_lies(changed, changed.chunks[0]))[lie]()
    assert read(changed, "a = 7000") == ([7000], {"offset_indexes_dropped": 1})


@pytest.mark.parametrize("column", [0, 1])
def test_a_page_that_is_not_what_its_index_says_is_read_with_its_chunk(column: int) -> None:
    changed = parts()
    for _, tell in list(row_lies(changed, changed.chunks[column]))[:1]:
        tell()
    assert read(changed, "a < 10") == (list(range(10)), {"offset_indexes_dropped": 1})


def test_statistics_of_nulls_only_with_bounds_are_dropped() -> None:
    changed = parts()
    become(changed.chunks[1].record["meta_data"]["statistics"]["null_count"], "int", ROWS)
    # The column index has another number of nulls, so one of both is wrong.
    assert read(changed, "b = 'b00007'") == ([7], {"statistics_dropped": 1, "column_indexes_dropped": 1})


@pytest.mark.parametrize(
    ("created_by", "known", "if_equal"),
    [
        ("parquet-mr version 1.7.0 (build x)", False, False),
        ("parquet-mr version 1.5.0-cdh5.4.9 (build x)", False, False),
        ("parquet-mr version 1.5.0-cdh5.5.0 (build x)", True, True),
        ("parquet-mr version 1.8.0", True, True),
        ("parquet-mr version 1.9.0-SNAPSHOT", True, True),
        ("parquet-mr version 1.10.0", True, False),
        ("parquet-cpp version 1.2.9", True, True),
        ("parquet-cpp version 1.5.1-SNAPSHOT", True, False),
        ("parquet-cpp-arrow version 26.0.1", True, False),
        ("DuckDB", True, False),
        ("", True, False),
    ],
)
def test_bounds_of_text_depend_on_the_writer(created_by: str, known: bool, if_equal: bool) -> None:
    changed = parts()
    become(changed.footer["created_by"], "bytes", created_by.encode())
    footer = open_bytes(changed.to_bytes())._footer
    numbers, text = (column.element for column in footer.columns.columns)
    assert numbers is not None
    assert text is not None
    found = bounds_order(footer, 1, text)
    assert (found.known, found.if_equal) == (known, if_equal)
    assert bounds_order(footer, 0, numbers).known


def test_without_column_orders_only_signed_numbers_have_bounds() -> None:
    changed = parts()
    remove(changed.footer, "column_orders")
    footer = open_bytes(changed.to_bytes())._footer
    numbers, text = (column.element for column in footer.columns.columns)
    assert numbers is not None
    assert text is not None
    assert bounds_order(footer, 0, numbers).known
    assert not bounds_order(footer, 1, text).known
    assert read(changed, "b = 'nothing'") == ([], {"statistics_dropped": 1, "column_indexes_dropped": 1})
