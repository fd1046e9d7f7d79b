"""Scans of whole tables, compared with the rows that were written."""

from __future__ import annotations

import pickle
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import Not
from pyiceberg.expressions.parser import parse
from pyiceberg.manifest import FileFormat
from pyiceberg.table import StaticTable, Table
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

import formatkit
from formatkit.errors import (
    AmbiguousColumnError,
    ColumnNotFoundError,
    ConfigurationError,
    FormatNotRegisteredError,
    InvalidPredicateError,
    MissingFieldIdsError,
)
from formatkit.registry import FormatRegistry
from support.iceberg_tables import (
    append_data_files,
    columns,
    data_file,
    remove_data_files,
    with_ids,
    write_rows,
)

ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "ada", "score": 1.5},
    {"id": 2, "name": None, "score": None},
    {"id": 3, "name": "bob", "score": float("inf")},
    {"id": None, "name": "eve", "score": -2.0},
]
SCHEMA = columns(id=pa.int64(), name=pa.string(), score=pa.float64())


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    created = catalog.create_table("db.people", schema=SCHEMA)
    created.append(pa.Table.from_pylist(ROWS[:2], schema=SCHEMA))
    created.append(pa.Table.from_pylist(ROWS[2:], schema=SCHEMA))
    return created


def rows(scan: Any) -> list[dict[str, Any]]:
    return sorted(scan.to_arrow().to_pylist(), key=repr)


def expected(*wanted: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(wanted, key=repr)


def test_all_rows_of_all_files_are_returned(table: Table) -> None:
    assert rows(formatkit.scan(table)) == expected(*ROWS)


@pytest.mark.parametrize(
    "where", ["id = 2 or name is null", parse("id = 2 or name is null"), Not(~parse("id = 2 or name is null"))]
)
def test_a_filter_may_be_text_or_an_expression(table: Table, where: Any) -> None:
    assert rows(formatkit.scan(table, where)) == expected(ROWS[1])


@pytest.mark.parametrize(
    ("where", "keep"),
    [
        ("id != 1", lambda row: row["id"] != 1),
        ("id not in (1, 3)", lambda row: row["id"] not in (1, 3)),
        ("id < 3", lambda row: row["id"] is not None and row["id"] < 3),
        ("not (id < 3)", lambda row: row["id"] is None or row["id"] >= 3),
        ("score > 0 and name is not null", lambda row: (row["score"] or 0) > 0 and row["name"] is not None),
        ("name like 'b%' or id is null", lambda row: (row["name"] or "").startswith("b") or row["id"] is None),
    ],
)
def test_filters_are_two_valued(table: Table, where: str, keep: Any) -> None:
    scan = formatkit.scan(table, where)
    assert rows(scan) == expected(*filter(keep, ROWS))
    assert scan.count() == len(rows(scan))


def test_columns_come_in_the_order_in_which_they_are_selected(table: Table) -> None:
    scan = formatkit.scan(table, "id = 1", select=("score", "_pos", "id"))
    assert scan.to_arrow().to_pydict() == {"score": [1.5], "_pos": [0], "id": [1]}
    assert [field.name for field in scan.schema.fields] == ["score", "_pos", "id"]


def test_metadata_columns_tell_where_a_row_is(table: Table) -> None:
    scan = formatkit.scan(table, select=("id", "_file", "_pos", "_spec_id", "_partition", "_deleted", "_row_id"))
    found = {row["id"]: row for row in scan.to_arrow().to_pylist()}
    files = {task.location for task in scan.tasks}
    assert {row["_file"] for row in found.values()} == files
    assert [found[id_]["_pos"] for id_ in (1, 2, 3, None)] == [0, 1, 0, 1]
    for row in found.values():
        assert (row["_spec_id"], row["_partition"], row["_deleted"], row["_row_id"]) == (0, None, False, None)


def test_filters_may_use_metadata_columns_and_prune_by_them(table: Table) -> None:
    location = formatkit.scan(table, "id = 3").tasks[0].location
    scan = formatkit.scan(table, f"_file = '{location}' and _pos = 1", select="name")
    assert scan.to_arrow().to_pydict() == {"name": ["eve"]}
    assert [task.location for task in scan.tasks] == [location]
    assert formatkit.scan(table, "_spec_id = 7").tasks == ()
    assert formatkit.scan(table, "_deleted = true").tasks == ()


def test_a_scan_can_be_read_again(table: Table) -> None:
    scan = formatkit.scan(table, threads=2)
    assert scan.to_arrow() == scan.to_arrow()


def test_the_order_does_not_depend_on_threads(table: Table) -> None:
    assert formatkit.scan(table, threads=1).to_arrow() == formatkit.scan(table, threads=4).to_arrow()


def test_whoever_takes_arrow_streams_takes_a_scan(table: Table) -> None:
    scan = formatkit.scan(table, "id >= 1", select=("id", "name"))
    assert pl.DataFrame(scan).sort("id").to_dicts() == [{"id": row["id"], "name": row["name"]} for row in ROWS[:3]]
    summed: Any = duckdb.sql("select sum(id), count(name) from scan")
    assert summed.fetchall() == [(6, 2)]
    assert pa.table(scan).schema == scan.arrow_schema
    assert pa.RecordBatchReader.from_stream(scan).read_all().num_rows == 3


def test_the_schema_does_not_depend_on_the_rows(table: Table) -> None:
    everything, nothing = formatkit.scan(table), formatkit.scan(table, "id = 99")
    assert nothing.to_arrow().num_rows == 0
    assert nothing.to_arrow().schema == everything.to_arrow().schema == everything.arrow_schema
    assert everything.arrow_schema == SCHEMA
    for batch in everything.to_batches():
        assert batch.schema == SCHEMA


def test_a_table_without_snapshots_has_no_rows(catalog: InMemoryCatalog) -> None:
    scan = formatkit.scan(catalog.create_table("db.empty", schema=SCHEMA), "id > 1")
    assert scan.tasks == ()
    assert scan.count() == 0
    assert scan.to_arrow().schema == SCHEMA
    assert "0 files" in str(scan.explain())


def test_a_static_table_is_scanned_like_any_other(table: Table) -> None:
    assert rows(formatkit.scan(StaticTable.from_metadata(table.metadata_location))) == expected(*ROWS)


def test_a_version_1_table_is_scanned_like_any_other(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.old", schema=SCHEMA, properties={"format-version": "1"})
    created.append(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    assert created.format_version == 1
    assert rows(formatkit.scan(created, "id >= 2")) == expected(*ROWS[1:3])


def test_an_old_snapshot_is_read_with_its_own_schema(table: Table) -> None:
    before = table.current_snapshot()
    assert before is not None
    with table.update_schema() as update:
        update.rename_column("name", "nick")
        update.delete_column("score")
        update.add_column("extra", StringType())
    scan = formatkit.scan(table, "name = 'ada' and score > 1", snapshot_id=before.snapshot_id)
    assert rows(scan) == expected(ROWS[0])
    with pytest.raises(ColumnNotFoundError, match="nick"):
        formatkit.scan(table, "nick = 'ada'", snapshot_id=before.snapshot_id)
    now = formatkit.scan(table, "nick = 'ada'")
    assert rows(now) == [{"id": 1, "nick": "ada", "extra": None}]
    first = table.history()[0].snapshot_id
    assert rows(formatkit.scan(table, snapshot_id=first)) == expected(*ROWS[:2])


def test_an_unknown_snapshot_is_refused_with_the_known_ones(table: Table) -> None:
    current = table.current_snapshot()
    assert current is not None
    with pytest.raises(ConfigurationError, match=f"no snapshot 7; it has: .*{current.snapshot_id}"):
        formatkit.scan(table, snapshot_id=7)


def test_a_column_that_was_widened_is_filtered_beyond_its_old_range(catalog: InMemoryCatalog) -> None:
    schema = columns(n=pa.int32())
    created = catalog.create_table("db.widened", schema=schema)
    created.append(pa.table({"n": [1, None, 3]}, schema=schema))
    with created.update_schema() as update:
        update.update_column("n", LongType())
    wide = columns(n=pa.int64())
    created.append(pa.table({"n": [5_000_000_001, None]}, schema=wide))
    assert rows(formatkit.scan(created, "n < 5000000000")) == [{"n": 1}, {"n": 3}]
    assert formatkit.scan(created, "n > 5000000000").to_arrow()["n"].to_pylist() == [5_000_000_001]


def test_names_may_be_given_in_any_case_when_that_is_asked_for(table: Table) -> None:
    scan = formatkit.scan(table, "NAME = 'ada'", select=("Score",), case_sensitive=False)
    assert scan.to_arrow().to_pydict() == {"score": [1.5]}
    with pytest.raises(ColumnNotFoundError, match="Score"):
        formatkit.scan(table, select=("Score",))


def test_an_ambiguous_name_is_refused(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.twins", schema=columns(id=pa.int64(), ID=pa.int64()))
    with pytest.raises(AmbiguousColumnError):
        formatkit.scan(created, "Id = 1", case_sensitive=False)
    with pytest.raises(AmbiguousColumnError):
        formatkit.scan(created, select=("iD",), case_sensitive=False)
    assert formatkit.scan(created, "ID = 1", select=("id",)).tasks == ()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"where": "nope = 1"}, ColumnNotFoundError),
        ({"where": "id = = 1"}, InvalidPredicateError),
        ({"select": ("id", "nope")}, ColumnNotFoundError),
        ({"limit": -1}, ConfigurationError),
        ({"threads": 0}, ConfigurationError),
        ({"batch_rows": 0}, ConfigurationError),
        ({"missing_ids": "guess"}, ConfigurationError),
        ({"dictionary_columns": ("id",)}, ConfigurationError),
        ({"dictionary_columns": ("nope",)}, ColumnNotFoundError),
        ({"registry": FormatRegistry()}, FormatNotRegisteredError),
        ({"batch_type": int}, FormatNotRegisteredError),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_read(
    table: Table, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        formatkit.scan(table, **arguments)


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 99])
@pytest.mark.parametrize("where", [None, "id is not null"])
@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_rows_than_the_limit_are_returned(table: Table, limit: int, where: str | None, threads: int) -> None:
    everything = formatkit.scan(table, where).to_arrow()
    scan = formatkit.scan(table, where, limit=limit, threads=threads)
    assert scan.to_arrow() == everything.slice(0, limit)
    assert scan.count() == min(limit, everything.num_rows)


def test_batches_have_no_more_rows_than_asked(table: Table) -> None:
    with formatkit.scan(table, batch_rows=1).to_batches() as batches:
        assert [batch.num_rows for batch in batches] == [1, 1, 1, 1]


def test_dictionary_columns_are_dictionaries_in_every_file(table: Table) -> None:
    found = formatkit.scan(table, dictionary_columns=("name",)).to_arrow()
    assert found.schema.field("name").type == pa.dictionary(pa.int32(), pa.string())
    assert sorted(map(str, found["name"].to_pylist())) == ["None", "ada", "bob", "eve"]


def test_nothing_is_selected_and_rows_are_still_counted(table: Table) -> None:
    with formatkit.scan(table, "id > 1", select=()).to_batches() as batches:
        assert sum(batch.num_rows for batch in batches) == 2


def test_counting_opens_no_file_where_the_metadata_decides(table: Table) -> None:
    whole, decided = formatkit.scan(table), formatkit.scan(table, "id < 3")
    undecided = formatkit.scan(table, "name like 'a%'")
    remove_data_files(table)
    assert whole.count() == 4
    assert decided.count() == 2
    with pytest.raises(formatkit.errors.FileMissingError):
        undecided.count()


def test_a_file_of_an_unknown_format_is_named_while_planning(table: Table) -> None:
    location = write_rows(table, "strange.nimble", pa.table({"id": [9]}))
    strange = data_file(table, location, 1, file_format="NIMBLE", lower_bounds={1: (9).to_bytes(8, "little")})
    append_data_files(table, strange)
    with pytest.raises(FormatNotRegisteredError, match=r"strange\.nimble.*'nimble'.*parquet"):
        formatkit.scan(table)
    assert rows(formatkit.scan(table, "id < 5 and name = 'ada'")) == expected(ROWS[0])


def test_files_without_ids_need_a_name_mapping_or_a_word(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.foreign", schema=SCHEMA)
    foreign = pa.table({"score": [0.5], "unknown": [1], "id": [7], "full_name": ["zoe"]})
    append_data_files(created, data_file(created, write_rows(created, "foreign.parquet", foreign), 1))
    with pytest.raises(MissingFieldIdsError, match="by-name"):
        formatkit.scan(created).to_arrow()
    by_name = formatkit.scan(created, "id = 7", missing_ids="by-name")
    assert rows(by_name) == [{"id": 7, "name": None, "score": 0.5}]
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name", "full_name"]}]'
    with created.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    assert rows(formatkit.scan(created, "name = 'zoe'")) == [{"id": 7, "name": "zoe", "score": None}]


def test_an_identity_column_that_files_lack_comes_from_the_partition(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.hive", schema=SCHEMA)
    with created.update_spec() as update:
        update.add_identity("name")
    files = []
    for value in ("de", "", None):
        data = with_ids(created, pa.table({"id": pa.array([1, 2], pa.int64()), "score": [0.5, 1.5]}))
        location = write_rows(created, f"name={value}/part.parquet", data)
        files.append(data_file(created, location, 2, partition=Record(value)))
    append_data_files(created, *files)
    assert created.spec().fields[0].name == "name"
    found = formatkit.scan(created, "name != 'de' and id = 2", select=("name", "id", "_partition"))
    assert rows(found) == expected(
        {"name": "", "id": 2, "_partition": {"name": ""}}, {"name": None, "id": 2, "_partition": {"name": None}}
    )
    assert {row["name"] for row in rows(formatkit.scan(created))} == {"de", "", None}


def test_stored_values_win_over_partition_values_unless_told_otherwise(catalog: InMemoryCatalog) -> None:
    created = catalog.create_table("db.disagree", schema=SCHEMA)
    with created.update_spec() as update:
        update.add_identity("name")
    data = with_ids(created, pa.table({"id": pa.array([1], pa.int64()), "name": ["stored"], "score": [0.5]}))
    location = write_rows(created, "part.parquet", data)
    append_data_files(created, data_file(created, location, 1, partition=Record("partition")))
    assert formatkit.scan(created, select="name").to_arrow().to_pydict() == {"name": ["stored"]}
    preferred = formatkit.scan(created, select="name", prefer_partition_constants=True)
    assert preferred.to_arrow().to_pydict() == {"name": ["partition"]}


def test_tasks_survive_pickling_and_are_small(table: Table) -> None:
    for task in formatkit.scan(table, "id = 1 or name = 'x'").tasks:
        packed = pickle.dumps(task)
        assert pickle.loads(packed) == task
        assert len(packed) < 2_000


def test_file_formats_are_told_by_each_file_not_by_the_table(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"write.format.default": "orc"})
    assert {task.file_format for task in formatkit.scan(table).tasks} == {FileFormat.PARQUET.value.lower()}


def test_the_explanation_says_what_is_read_and_why(table: Table) -> None:
    scan = formatkit.scan(table, "id < 3 and name = 'ada'", select=("id",), limit=5)
    text = str(scan.explain())
    for part in ("1 file in 1 task", "id < 3 and name = 'ada'", "1 file by column metrics", "5 rows", "parquet 1"):
        assert part in text
    assert "id < 3: decided in every file" in text
    assert "last run" not in text
    scan.to_arrow()
    facts = scan.explain().to_dict()
    assert facts["run"]["files_opened"] == 1
    assert facts["residuals"] == {"name = 'ada'": 1}
    assert facts["files_skipped"] == {"metrics": 1}
