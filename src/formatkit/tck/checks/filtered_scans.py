"""Filters on tables: the rows are those that pass after everything else was done to them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from formatkit.contract import Capability
from formatkit.errors import AmbiguousColumnError, ColumnNotFoundError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.histories import histories
from formatkit.tck.lives import files_of_any_age
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.strategies import predicates
from formatkit.tck.table_files import ID, file_of
from formatkit.tck.traps import TRAPS_ABOUT, by_table

_BY_ID: dict[str, Any] = {
    "layer": Layer.SCAN,
    "when": Capability.FIELD_IDS,
    "twin": "a_format_without_ids_is_read_through_a_mapping_only",
}


def _answers(kit: ScanKit[Any], theme: str) -> None:
    for table, questions in by_table(TRAPS_ABOUT[theme]):
        with kit.built(**table) as built:
            for where in questions:
                built.compare(where)


@check("P5", "X16", layer=Layer.SCAN)
def filters_on_promoted_columns_compare_the_values_that_they_became(kit: ScanKit[Any]) -> None:
    _answers(kit, "promotions")


@check("P5", "X09", "X10", "X11", "X23", layer=Layer.SCAN)
def filters_keep_and_drop_nulls_nans_and_zeros_as_the_spec_says(kit: ScanKit[Any]) -> None:
    _answers(kit, "nulls")


@check("P5", "X24", layer=Layer.SCAN)
def filters_order_bytes_unsigned_and_decimals_as_numbers(kit: ScanKit[Any]) -> None:
    _answers(kit, "bytes")


@check("P5", "X17", "X27", **_BY_ID)
def filters_find_nested_renamed_and_swapped_columns(kit: ScanKit[Any]) -> None:
    _answers(kit, "nesting")


@check("P5", "J15", layer=Layer.SCAN)
def names_in_filters_may_be_spelled_in_any_case_if_that_is_asked_for(kit: ScanKit[Any]) -> None:
    schema = Schema(ID, NestedField(2, "Mixed", IntegerType()))
    with kit.built([schema], [file_of(schema, (0, 1), (1, 2), (2, None))]) as table:
        found = table.rows(table.scan("MIXED = 2", ("mixed", "ID"), case_sensitive=False))
        expect.equal_rows(found, [{2: 2, 1: 1}])
        with expect.raises(ColumnNotFoundError, when="filtering by a name in another case"):
            table.scan("MIXED = 2")


@check("P5", "J15", layer=Layer.SCAN)
def names_that_differ_by_case_alone_are_told_apart(kit: ScanKit[Any]) -> None:
    schema = Schema(ID, NestedField(2, "a", IntegerType()), NestedField(3, "A", IntegerType()))
    with kit.built([schema], [file_of(schema, (0, 1, 2), (1, 2, 1), (2, None, 1))]) as table:
        table.compare("a = 1")
        table.compare("A = 1", select=("a",))
        with expect.raises(AmbiguousColumnError, when="filtering by a name that could be two columns"):
            table.scan("a = 1", case_sensitive=False)


@check("P5", "X19", **_BY_ID)
def a_filtered_column_need_not_be_selected_and_may_bear_the_old_name_of_another(kit: ScanKit[Any]) -> None:
    old = Schema(ID, NestedField(2, "a", IntegerType()), NestedField(3, "b", IntegerType()))
    new = Schema(ID, NestedField(2, "b", IntegerType()), NestedField(3, "a", IntegerType()), schema_id=1)
    with kit.built([old, new], [file_of(old, (0, 1, 2), (1, 2, 1), (2, None, 1), (3, 1, None))]) as table:
        for where in ("a = 1", "b = 1", "a != 1 and b = 1", "a is null or b is null"):
            for select in (("a",), ("b",), ("b", "a"), ("id",)):
                table.compare(where, select=select)


@check("P5", "X25", layer=Layer.SCAN)
def the_time_zone_of_the_machine_changes_no_answer(kit: ScanKit[Any]) -> None:
    schema = Schema(
        ID,
        NestedField(2, "t", TimestampType()),
        NestedField(3, "z", TimestamptzType()),
        NestedField(4, "d", DateType()),
    )
    moments = [datetime(2021, 3, 14, 10) + timedelta(hours=hours) for hours in range(-48, 48, 7)]
    rows = [(n, moment, moment.replace(tzinfo=UTC), moment.date()) for n, moment in enumerate(moments)]
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 999_999)
    rows.append((99, before_1970, before_1970.replace(tzinfo=UTC), before_1970.date()))
    for zone in ("UTC", "America/Los_Angeles", "Asia/Kolkata"):
        with _time_zone(zone), kit.built([schema], [file_of(schema, *rows)]) as table:
            for where in (None, "t >= '2021-03-14T02:30:00'", "z < '2021-03-14T02:30:00+00:00'", "d = '2021-03-14'"):
                table.compare(where)


@contextmanager
def _time_zone(name: str) -> Iterator[None]:
    """The machine in another place, where the system lets a process move."""
    before = os.environ.get("TZ")
    try:
        _set_time_zone(name)
        yield
    finally:
        _set_time_zone(before)


def _set_time_zone(name: str | None) -> None:
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    if hasattr(time, "tzset"):
        time.tzset()


@check("P5", "X68", layer=Layer.SCAN)
def bounds_of_empty_texts_and_of_promoted_columns_skip_no_row(kit: ScanKit[Any]) -> None:
    """Bounds in manifests may have no bytes, or four bytes where the column has become wider."""
    old = Schema(
        ID, NestedField(2, "s", StringType()), NestedField(3, "n", IntegerType()), NestedField(4, "x", FloatType())
    )
    new = Schema(
        ID,
        NestedField(2, "s", StringType()),
        NestedField(3, "n", LongType()),
        NestedField(4, "x", DoubleType()),
        schema_id=1,
    )
    files = [
        file_of(old, (0, "", -5, -1.5), (1, "", -1, -0.0)),
        file_of(old, (2, "a", 3, 0.5), (3, None, 2**31 - 1, None)),
        file_of(new, (4, "", 2**40, 1e300), (5, "b", -(2**40), 0.1)),
    ]
    questions = ("s = ''", "s > ''", "s < 'a'", "n < 0", "n = -5", "n > 2147483646", "x < 0.0", "x = 0.0", "x > 0.1")
    with kit.built([old, new], files) as table:
        for where in questions:
            table.compare(where)


@check("P1", "P3", "P4", "P5", "P6", "P7", **_BY_ID)
def any_question_to_a_table_that_has_lived_is_answered_rightly(kit: ScanKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schemas = data.draw(histories(nanoseconds=kit.format.nanoseconds), label="schemas")
        files = data.draw(files_of_any_age(schemas, kit.format.plugin.capabilities), label="files")
        questions = data.draw(st.lists(predicates(schemas[-1]), min_size=1, max_size=3), label="questions")
        columns = data.draw(_selections(schemas[-1]), label="columns")
        with kit.built(schemas, files, format_version=3) as table:
            for where in questions:
                table.compare(where, select=(*columns, "_pos", "_row_id"), batch_rows=4)


def _selections(schema: Schema) -> st.SearchStrategy[Sequence[str]]:
    return st.lists(st.sampled_from([column.name for column in schema.fields]), unique=True)
