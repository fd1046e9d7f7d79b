from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.exceptions import ResolveError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from formatkit.integrations.pyiceberg import install
from formatkit.registry import default_registry
from support.animals import ANIMALS, by_id, new_table
from support.iceberg_tables import new_catalog

FORMATS = default_registry().names()


@pytest.fixture(scope="module", params=[False, True], ids=["unpartitioned", "partitioned"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return zoo(new_catalog(tmp_path_factory.mktemp("zoo")), partitioned=request.param)


def zoo(catalog: InMemoryCatalog, *, partitioned: bool = False) -> Table:
    table = new_table(catalog, partitioned=partitioned)
    table.append(ANIMALS.slice(0, 4))
    table.append(ANIMALS.slice(4))
    return table


def outcome(call: Callable[[], Any]) -> Any:
    """What a client sees of a call: rows and types, or the error."""
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it must stay the same
        return type(error), str(error)
    if isinstance(found, pa.RecordBatchReader):
        found = found.read_all()
    if isinstance(found, pa.Table):
        found = found.schema.to_string(show_field_metadata=True), sorted(map(repr, found.to_pylist()))
    return found, [str(each.message) for each in warned]


def unchanged(call: Callable[[], Any]) -> Any:
    """Check that formatkit answers as pyiceberg does; returns the answer."""
    before = outcome(call)
    with install():
        assert outcome(call) == before
    return before


# pyiceberg itself is wrong about NaN where partitions or statistics let it skip files, so none of these asks for it.
FILTERS = [
    "weight > 10",
    "weight <= 12 or kind = 'emu'",
    "kind = 'cat'",
    "kind in ('cat', 'emu')",
    "kind not in ('cat', 'emu')",
    "kind like 'c%'",
    "kind is null",
    "kind is not null and not (id > 3)",
    "not (id in (1, 2))",
    "id != 3",
    "home.city = 'Rome'",
    "home.floor is null",
    "not (home.floor > 1)",
    "id between 2 and 4",
]


@pytest.mark.parametrize("row_filter", FILTERS)
def test_filters_select_the_rows_that_they_selected_before(table: Table, row_filter: str) -> None:
    unchanged(lambda: table.scan(row_filter).to_arrow())
    unchanged(lambda: table.scan(row_filter).to_arrow_batch_reader())


@pytest.mark.parametrize("row_filter", ["kind != 'cat'", "not (kind = 'cat')", "not (kind like 'c%')", "weight != 4.5"])
def test_null_passes_no_comparison_and_count_agrees(table: Table, row_filter: str) -> None:
    column = row_filter.replace("not (", "").split()[0]
    with install():
        found = table.scan(row_filter).to_arrow()
        assert found[column].null_count == 0
        assert table.scan(row_filter).count() == found.num_rows
    assert len(table.scan(row_filter).to_arrow()) <= found.num_rows  # pyiceberg may lose NaN


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"selected_fields": ("kind", "id")},
    {"selected_fields": ("home.city", "id")},
    {"selected_fields": ("names.element",)},
    {"selected_fields": ("KIND",), "case_sensitive": False},
    {"row_filter": "KIND = 'cat' and Home.CITY = 'Rome'", "case_sensitive": False},
    {"row_filter": "id > 100"},
    {"limit": 0},
    {"limit": -3},
    {"limit": 100},
    {"row_filter": "id > 1", "selected_fields": ("kind",)},
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_arguments_mean_what_they_meant(table: Table, arguments: dict[str, Any]) -> None:
    unchanged(lambda: table.scan(**arguments).to_arrow())
    unchanged(lambda: table.scan(**arguments).to_arrow_batch_reader())
    unchanged(lambda: table.scan(**arguments).count())


WRONG: list[dict[str, Any]] = [
    {"row_filter": "nothing = 1"},
    {"row_filter": "KIND = 'cat'"},
    {"row_filter": "id = 'abc'"},
    {"row_filter": "id = 1 and"},
    {"selected_fields": ("nothing",)},
    {"selected_fields": ("KIND",)},
    {"snapshot_id": 17},
]


@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_wrong_arguments_raise_what_they_raised(table: Table, arguments: dict[str, Any]) -> None:
    unchanged(lambda: table.scan(**arguments).to_arrow())
    unchanged(lambda: table.scan(**arguments).to_arrow_batch_reader())
    unchanged(lambda: table.scan(**arguments).count())


def test_an_empty_table_has_the_types_that_it_had(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    unchanged(lambda: table.scan().to_arrow())
    unchanged(lambda: table.scan().to_arrow_batch_reader())
    unchanged(lambda: table.scan("nothing = 1").count())
    unchanged(lambda: table.scan("nothing = 1").to_arrow())


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
def test_what_was_appended_comes_back_as_it_was(table: Table) -> None:
    found = by_id(table.scan().to_arrow())
    assert found.schema == ANIMALS.schema
    assert found.slice(0, 3) == ANIMALS.slice(0, 3)


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
@pytest.mark.parametrize("limit", [1, 3, 5])
def test_no_more_rows_come_than_asked_for(table: Table, limit: int) -> None:
    assert table.scan(limit=limit).to_arrow().num_rows == limit
    assert table.scan(limit=limit).to_arrow_batch_reader().read_all().num_rows == limit


def test_dictionary_columns_are_dictionaries(table: Table) -> None:
    wanted = ("kind", "weight", "nothing")
    before = table.scan().to_arrow(dictionary_columns=wanted).schema.field("kind")
    with install():
        assert table.scan().to_arrow(dictionary_columns=wanted).schema.field("kind") == before
        reader = table.scan().to_arrow_batch_reader(dictionary_columns=wanted)
        assert reader.schema.field("kind").type == before.type
        assert reader.read_all().num_rows == len(ANIMALS)


def test_an_older_snapshot_shows_old_columns_and_is_filtered_by_new_names(catalog: InMemoryCatalog) -> None:
    table = zoo(catalog)
    old = table.history()[0].snapshot_id
    with table.update_schema() as update:
        update.rename_column("weight", "mass")
        update.add_column("age", LongType())
    for row_filter in ("mass > 5", "weight > 5", "age is null", "age > 3"):
        unchanged(lambda: table.scan(row_filter, snapshot_id=old).to_arrow())  # noqa: B023 - called at once
        unchanged(lambda: table.scan(row_filter, snapshot_id=old).count())  # noqa: B023
    unchanged(lambda: table.scan(snapshot_id=old, selected_fields=("weight",)).to_arrow())


def test_branches_and_tags_are_read(catalog: InMemoryCatalog) -> None:
    table = zoo(catalog)
    with table.manage_snapshots() as manage:
        manage.create_tag(table.history()[0].snapshot_id, "first")
    unchanged(lambda: table.scan().use_ref("first").to_arrow())
    unchanged(lambda: table.scan().use_ref("nothing"))


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
def test_other_frames_are_made_of_the_same_rows(table: Table) -> None:
    scan = table.scan("id < 4", selected_fields=("id", "kind"))
    assert sorted(scan.to_polars().rows()) == [(1, "cat"), (2, "dog"), (3, None)]
    assert scan.to_duckdb("t").execute("select count(*), max(kind) from t").fetchall() == [(3, "dog")]


def test_a_required_column_that_files_lack_is_pyicebergs_error(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    table.append(ANIMALS)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.add_column("age", LongType(), required=True)
    with pytest.raises(ResolveError) as before:
        table.scan().to_arrow()
    with install():
        with pytest.raises(ResolveError, match=re.escape(str(before.value))):
            table.scan().to_arrow()
        with pytest.raises(ResolveError, match=re.escape(str(before.value))):
            table.scan().to_arrow_batch_reader().read_all()


def test_a_type_that_cannot_be_promoted_is_pyicebergs_error(table: Table) -> None:
    narrow = Schema(NestedField(1, "id", IntegerType(), required=True))
    reading = ArrowScan(table.metadata, table.io, narrow, AlwaysTrue())
    tasks = list(table.scan().plan_files())
    with pytest.raises(ResolveError) as before:
        reading.to_table(tasks)
    with install(), pytest.raises(ResolveError, match=re.escape(str(before.value))):
        reading.to_table(tasks)


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
@pytest.mark.parametrize("file_format", FORMATS)
def test_every_format_is_read_with_all_ways_to_ask(catalog: InMemoryCatalog, file_format: str) -> None:
    table = new_table(catalog, file_format=file_format, partitioned=True)
    table.append(ANIMALS)
    with table.update_schema() as update:
        update.add_column("age", StringType())
        update.rename_column("kind", "species")
    assert {task.file.file_format.value.lower() for task in table.scan().plan_files()} == {file_format}
    found = table.scan("species = 'cat' and id < 4").to_arrow().drop_columns(["species", "age"])
    assert found == ANIMALS.slice(0, 1).drop_columns(["kind"])
    assert table.scan("weight > 10").count() == 3
    assert table.scan(limit=2).to_arrow_batch_reader().read_all().num_rows == 2
    assert set(table.inspect.files()["file_format"].to_pylist()) == {file_format.upper()}


class CautiousScan(DataScan):
    """A subclass that plans by itself, as a catalog's server would."""

    def plan_files(self) -> Iterator[FileScanTask]:
        for task in super().plan_files():
            yield FileScanTask(task.file, task.delete_files, task.residual)


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
def test_files_that_somebody_else_planned_are_read(table: Table) -> None:
    scan = CautiousScan(table.metadata, table.io, "weight > 10", ("kind", "id"))
    assert by_id(scan.to_arrow())["id"].to_pylist() == [3, 5, 6]
    assert scan.count() == 3
    assert (
        scan.to_arrow_batch_reader().schema == table.scan(selected_fields=("kind", "id")).to_arrow_batch_reader().schema
    )


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
def test_tasks_may_come_from_a_generator(table: Table) -> None:
    reading = ArrowScan(table.metadata, table.io, table.schema(), table.scan("id > 2").row_filter, limit=2)
    assert reading.to_table(task for task in table.scan().plan_files()).num_rows == 2
    assert sum(batch.num_rows for batch in reading.to_record_batches(table.scan().plan_files())) == 2


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
def test_a_task_that_was_made_by_hand_may_say_anything_of_the_files_size(table: Table) -> None:
    for planned in table.scan().plan_files():
        file = deepcopy(planned.file)
        file[4] = file[5] = 3
        reading = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        assert reading.to_table([FileScanTask(file)]).num_rows == planned.file.record_count


def test_incremental_scans_are_read(table: Table) -> None:
    first = table.history()[0].snapshot_id
    unchanged(lambda: table.incremental_append_scan(from_snapshot_id_exclusive=first).to_arrow())
    rows, _ = unchanged(lambda: table.incremental_append_scan(row_filter="kind = 'cat'").to_arrow_batch_reader())
    assert len(rows[1]) == 2


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
def test_planned_tasks_say_what_pyicebergs_say(table: Table) -> None:
    tasks = list(table.scan("kind = 'emu'").plan_files())
    assert [task.file.record_count for task in tasks] == ([1] if table.spec().fields else [2])
    assert all(task.file.lower_bounds and not task.delete_files for task in tasks)


@pytest.mark.usefixtures("formatkit_in_pyiceberg")
def test_a_reader_that_is_closed_early_reads_no_further(table: Table) -> None:
    with table.scan().to_arrow_batch_reader() as reader:
        reader.read_next_batch()
