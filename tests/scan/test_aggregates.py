"""Count, min and max, from metadata where that is exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType

import formatkit
from formatkit.errors import ColumnNotFoundError, ConfigurationError, FileMissingError, UnsupportedError
from support.deletes import delete_at, delete_equal
from support.iceberg_tables import columns, local_path

SCHEMA = columns(
    id=pa.int64(),
    name=pa.string(),
    score=pa.float64(),
    day=pa.date32(),
    price=pa.decimal128(9, 2),
    at=pa.timestamp("us", "UTC"),
    tags=pa.list_(pa.string()),
)
ALL = ["count", "count(name)", "count(tags)"] + [
    f"{function}({name})" for function in ("min", "max") for name in ("id", "name", "score", "day", "price", "at")
]


def rows_of(ids: Sequence[int], **changed: Any) -> pa.Table:
    made: dict[str, Any] = {
        "id": ids,
        "name": [None if each % 3 == 0 else f"a long name, longer than bounds are {each:03d}" for each in ids],
        "score": [each + 0.5 for each in ids],
        "day": [each * 10 for each in ids],
        "price": [each * 2 for each in ids],
        "at": [each * 1_000_001 for each in ids],
        "tags": [None if each % 2 else ["x"] for each in ids],
    }
    return pa.table({**made, **changed}, schema=SCHEMA)


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    """Ids 1 to 9 in one file, 10 to 19 in the other."""
    created = catalog.create_table("db.t", schema=SCHEMA)
    formatkit.append(created, rows_of(range(1, 10)))
    formatkit.append(created, rows_of(range(10, 20)))
    return created.refresh()


def answer(table: Table, *aggregates: str, **arguments: Any) -> dict[str, Any]:
    scan = formatkit.scan(table, **arguments)
    told = scan.aggregate(*aggregates)
    assert told.num_rows == 1
    row: dict[str, Any] = told.to_pylist()[0]
    read: dict[str, Any] = scan.aggregate(*aggregates, from_metadata=False).to_pylist()[0]
    assert _comparable(row) == _comparable(read)
    return row


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: "nan" if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}


def without_files(table: Table, *, kept: int = 0) -> None:
    """Remove the data files but the last ones, so that whoever opens one of them fails."""
    locations = sorted(task.location for task in formatkit.scan(table, f"id < {20 - 10 * kept}").tasks)
    for location in locations:
        local_path(location).unlink()


def test_what_metadata_tells_equals_what_the_rows_say(table: Table) -> None:
    row = answer(table, *ALL)
    assert (row["count"], row["count(name)"], row["count(tags)"]) == (19, 13, 9)
    assert (row["min(id)"], row["max(id)"], row["min(score)"], row["max(score)"]) == (1, 19, 1.5, 19.5)
    assert row["max(name)"] == "a long name, longer than bounds are 019"


def test_numbers_and_times_need_no_file(table: Table) -> None:
    expected = answer(table, "count", "count(name)", "max(id)", "min(score)", "min(day)", "max(price)", "min(at)")
    without_files(table)
    assert formatkit.scan(table).aggregate(*expected).to_pylist() == [expected]


@pytest.mark.parametrize("text", ["min(name)", "max(name)", "count(tags)"])
def test_what_metadata_does_not_tell_is_read(table: Table, text: str) -> None:
    without_files(table)
    with pytest.raises(formatkit.FormatkitError):
        formatkit.scan(table).aggregate(text)


def test_only_files_that_metadata_leaves_open_are_read(table: Table) -> None:
    last = formatkit.scan(table, "id = 19").tasks[0].location
    # What the file is about shows in its bounds.
    bounds = {2147483546: last.encode()}
    changed = delete_at(table, "deletes", {last: [9]}, lower_bounds=bounds, upper_bounds=bounds)
    without_files(changed, kept=1)
    assert formatkit.scan(changed).aggregate("count", "min(id)", "max(id)").to_pylist() == [
        {"count": 18, "min(id)": 1, "max(id)": 18}
    ]


def test_equality_deletes_are_heeded(table: Table) -> None:
    changed = delete_equal(table, "deletes", {"id": [1, 19]}, [1])
    assert answer(changed, "count", "min(id)", "max(id)") == {"count": 17, "min(id)": 2, "max(id)": 18}


def test_deleted_rows_count_where_they_are_selected(table: Table) -> None:
    changed = delete_equal(table, "deletes", {"id": [1, 19]}, [1])
    row = answer(changed, "count", "max(id)", select=("id", "_deleted"))
    assert row == {"count": 19, "max(id)": 19}


@pytest.mark.parametrize(
    ("where", "expected"), [("id > 5", (14, 6, 19)), ("id >= 10", (10, 10, 19)), ("id > 99", (0, None, None))]
)
def test_filters_are_heeded(table: Table, where: str, expected: tuple[Any, ...]) -> None:
    assert tuple(answer(table, "count", "min(id)", "max(id)", where=where).values()) == expected


def test_a_filter_that_takes_whole_files_needs_none(table: Table) -> None:
    without_files(table)
    assert formatkit.scan(table, "id >= 10").aggregate("max(id)").to_pylist() == [{"max(id)": 19}]


def test_a_limit_is_heeded(table: Table) -> None:
    scan = formatkit.scan(table, limit=3)
    assert scan.aggregate("count", "count(id)").to_pylist() == [{"count": 3, "count(id)": 3}]


def test_nan_is_greater_than_any_number(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.nan", schema=SCHEMA)
    created.append(rows_of([1, 2], score=[1.0, math.nan]))
    row = answer(created, "min(score)", "max(score)")
    assert row["min(score)"] == 1.0
    assert math.isnan(row["max(score)"])
    created.overwrite(rows_of([1, 2], score=[math.nan, None]))
    assert math.isnan(answer(created, "min(score)")["min(score)"])


def test_zeros_keep_their_sign(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.zero", schema=SCHEMA)
    created.append(rows_of([1], score=[0.0]))
    assert math.copysign(1.0, answer(created, "min(score)")["min(score)"]) == 1.0


def test_strings_that_are_all_the_same_need_no_file(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.same", schema=SCHEMA)
    created.append(rows_of([1, 2], name=["x", None]))
    assert answer(created, "min(name)", "max(name)") == {"min(name)": "x", "max(name)": "x"}
    without_files(created)
    assert formatkit.scan(created).aggregate("max(name)").to_pylist() == [{"max(name)": "x"}]


def test_columns_of_nulls_and_tables_without_rows_have_no_extremes(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.none", schema=SCHEMA)
    assert answer(created, "count", "min(id)") == {"count": 0, "min(id)": None}
    created.append(rows_of([1, 2], price=[None, None]))
    assert answer(created, "count(price)", "max(price)") == {"count(price)": 0, "max(price)": None}


def test_columns_that_came_later_or_have_other_names_are_found(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("extra", IntegerType())
        update.rename_column("id", "number")
    expected = {"count": 19, "count(extra)": 0, "max(number)": 19, "max(extra)": None}
    assert answer(table, *expected) == expected


def test_a_promoted_column_has_its_new_type(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.promoted", schema=columns(n=pa.int32()))
    created.append(pa.table({"n": [1, 2]}, schema=columns(n=pa.int32())))
    with created.update_schema() as update:
        update.update_column("n", LongType())
    created.append(pa.table({"n": [1 << 40]}, schema=columns(n=pa.int64())))
    assert answer(created, "min(n)", "max(n)") == {"min(n)": 1, "max(n)": 1 << 40}


def test_parts_of_files_are_not_whole_files(table: Table) -> None:
    scan = formatkit.scan(table)
    assert scan.of_tasks(scan.tasks[:1]).aggregate("count", "count(id)").to_pylist() in (
        [{"count": 9, "count(id)": 9}],
        [{"count": 10, "count(id)": 10}],
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("sum(id)", ConfigurationError),
        ("min", ConfigurationError),
        ("max(nothing)", ColumnNotFoundError),
        ("max(tags)", UnsupportedError),
    ],
)
def test_wrong_aggregates_are_refused(table: Table, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        formatkit.scan(table).aggregate(text)


def test_nothing_to_compute_is_refused(table: Table) -> None:
    with pytest.raises(ConfigurationError):
        formatkit.scan(table).aggregate()


def test_bounds_of_timestamps_in_orc_files_are_not_believed(catalog: InMemoryCatalog) -> None:
    """Other writers of ORC record them in whole milliseconds."""
    table = catalog.create_table("db.o", schema=SCHEMA, properties={"write.format.default": "orc"})
    formatkit.append(table, rows_of(range(1, 10)))
    without_files(table)
    assert formatkit.scan(table).aggregate("max(id)", "max(day)").to_pylist() == [
        {"max(id)": 9, "max(day)": date(1970, 4, 1)}
    ]
    with pytest.raises(FileMissingError):
        formatkit.scan(table).aggregate("max(at)")
