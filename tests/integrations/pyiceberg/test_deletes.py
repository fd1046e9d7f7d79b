from __future__ import annotations

import pickle
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.table.snapshots import Operation

import formatkit
from formatkit.errors import UnsupportedError
from formatkit.write.commit import Change, commit
from formatkit.write.deletes import write_equality_deletes
from support.animals import ANIMALS, animals, by_id, new_table

pytestmark = pytest.mark.usefixtures("formatkit_in_pyiceberg")


def delete_kinds(table: Table, *kinds: str | None) -> None:
    """Delete by equality of the second column."""
    rows = pa.table({"kind": pa.array(kinds, pa.string())})
    file = write_equality_deletes(f"{table.location()}/data/{uuid4()}.parquet", rows, table.schema(), [2], io=table.io)
    assert file is not None
    snapshot = table.current_snapshot()
    assert snapshot is not None
    change = Change(operation=Operation.DELETE, added_deletes=(file,), base_snapshot_id=snapshot.snapshot_id)
    commit(table, change)


@pytest.fixture(params=["positions in avro", "equality", "vectors"])
def table(request: pytest.FixtureRequest, catalog: InMemoryCatalog) -> Table:
    """A table of which dogs and the animals without a kind are deleted."""
    properties = {"format-version": "3" if request.param == "vectors" else "2", "write.delete.format.default": "avro"}
    table = new_table(catalog, file_format="orc", properties=properties)
    formatkit.append(table, ANIMALS.slice(0, 4))
    formatkit.append(table, ANIMALS.slice(4))
    if request.param == "equality":
        delete_kinds(table, "dog", None)
    else:
        formatkit.delete(table, "kind = 'dog' or kind is null")
    return table


LEFT = [1, 4, 6]


def test_deleted_rows_are_not_read(table: Table) -> None:
    assert by_id(table.scan().to_arrow())["id"].to_pylist() == LEFT
    assert table.scan().count() == len(LEFT)
    assert table.scan("id > 1").to_arrow_batch_reader().read_all().num_rows == 2
    assert table.scan("id = 2").count() == 0


def test_planned_tasks_bring_their_deletes(table: Table) -> None:
    tasks = list(table.scan().plan_files())
    assert len(tasks) == 2
    assert all(task.delete_files for task in tasks)
    reading = ArrowScan(table.metadata, table.io, table.schema(), table.scan().row_filter)
    assert by_id(reading.to_table(tasks))["id"].to_pylist() == LEFT
    assert by_id(reading.to_table(pickle.loads(pickle.dumps(tasks))))["id"].to_pylist() == LEFT


def test_copy_on_write_does_not_bring_deleted_rows_back(table: Table) -> None:
    if table.format_version > 2:
        with pytest.raises(UnsupportedError, match=r"use formatkit\.append"):
            table.delete("id = 4")
        return
    table.delete("id = 4")
    assert by_id(table.scan().to_arrow())["id"].to_pylist() == [1, 6]
    table.append(animals((2, "dog", 1.0)))
    assert by_id(table.scan().to_arrow())["id"].to_pylist() == [1, 2, 6]


def test_copy_on_write_heeds_equality_deletes_that_its_filter_excludes(catalog: InMemoryCatalog) -> None:
    """Rows that the filter does not match are kept, so it must be known which of them are deleted."""
    table = new_table(catalog, properties={"format-version": "2"})
    formatkit.append(table, ANIMALS)
    delete_kinds(table, "cat")
    table.delete("id = 5")
    assert by_id(table.scan().to_arrow())["id"].to_pylist() == [2, 3, 6]
    delete_kinds(table, "emu")
    table.overwrite(animals((7, "fox", 1.0)), overwrite_filter="kind = 'dog'")
    assert by_id(table.scan().to_arrow())["id"].to_pylist() == [3, 7]


def test_an_upsert_inserts_what_was_deleted(table: Table) -> None:
    rows = animals((1, "cat", 5.0), (2, "dog", 9.0))
    if table.format_version > 2:
        with pytest.raises(UnsupportedError, match=r"use formatkit\.append"):
            table.upsert(rows)
        return
    result = table.upsert(rows)
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert by_id(table.scan().to_arrow())["id"].to_pylist() == [1, 2, 4, 6]


class BareScan(DataScan):
    """Plans tasks that know no more than pyiceberg's."""

    def plan_files(self) -> list[FileScanTask]:
        return [FileScanTask(task.file, task.delete_files, task.residual) for task in super().plan_files()]


def test_tasks_that_do_not_say_enough_about_their_deletes_are_refused(table: Table) -> None:
    scan = BareScan(table.metadata, table.io)
    if any(_says_too_little(file) for file in _delete_files(table)):
        with pytest.raises(UnsupportedError, match="plan the files where formatkit is installed"):
            scan.to_arrow()
    else:
        assert by_id(scan.to_arrow())["id"].to_pylist() == LEFT


def _delete_files(table: Table) -> list[DataFile]:
    return [file for task in table.scan().plan_files() for file in task.delete_files]


def _says_too_little(file: DataFile) -> bool:
    return file.content is DataFileContent.EQUALITY_DELETES or file.file_format is FileFormat.PUFFIN
