"""What fails for a moment is asked for again; what stays broken is an error, and never wrong rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import FileMissingError, StorageError
from formatkit.io import IoRuntime
from formatkit.io.retry import RetryPolicy
from support.iceberg_tables import columns
from support.object_store import SlowStore
from support.written_tables import ALL_FORMATS

ROWS = 80_000
Filled = Callable[[str], Table]
FAULTS = ["503", "reset", "truncate"]


@pytest.fixture
def runtime() -> Iterator[IoRuntime]:
    """One that does not wait long before it tries again."""
    with IoRuntime(threads=4, retry=RetryPolicy(attempts=4, first_delay=0.01)) as made:
        yield made


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_failures_that_pass_do_not_show(
    store: SlowStore, filled: Filled, runtime: IoRuntime, file_format: str, fault: str
) -> None:
    table = filled(file_format)
    with formatkit.with_runtime(runtime):
        scan = formatkit.scan(table, threads=2)
        store.set(faults=[{"kind": fault, "times": 3, "path": "/data/"}])
        read = scan.to_arrow()
    assert read.sort_by("id").column("id").to_pylist() == list(range(ROWS))
    assert [request.fault for request in store.seen()].count(fault) == 3
    # A client may repeat a request by itself if the connection was reset before anything came.
    assert runtime.usage.retries == 3 or fault == "reset"


@pytest.mark.parametrize("fault", FAULTS)
def test_failures_that_stay_are_errors(store: SlowStore, filled: Filled, runtime: IoRuntime, fault: str) -> None:
    table = filled("parquet")
    with formatkit.with_runtime(runtime):
        scan = formatkit.scan(table)
        store.set(faults=[{"kind": fault, "times": 1_000, "path": "/data/"}])
        with pytest.raises(StorageError) as raised:
            scan.to_arrow()
    assert vars(raised.value)["location"] in {task.location for task in scan.tasks}
    assert raised.value.retryable
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_planning_survives_failures_that_pass(
    store: SlowStore, filled: Filled, runtime: IoRuntime, method: str
) -> None:
    table = filled("parquet")
    store.set(faults=[{"kind": "reset", "times": 2, "path": "/metadata/", "method": method}])
    with formatkit.with_runtime(runtime):
        assert formatkit.scan(table).count() == ROWS


def test_an_object_that_is_gone_is_missing_and_is_not_asked_for_again(
    store: SlowStore, catalog: Catalog, runtime: IoRuntime
) -> None:
    table = catalog.create_table("db.small", schema=columns(id=pa.int64()))
    for _ in range(2):
        formatkit.append(table, pa.table({"id": range(10)}))
    with formatkit.with_runtime(runtime):
        scan = formatkit.scan(table, threads=1)
        gone = scan.tasks[1].location
        table.io.delete(gone)
        store.seen()
        with pytest.raises(FileMissingError, match="there is no such file") as raised:
            scan.to_arrow()
    assert vars(raised.value)["location"] == gone
    assert runtime.usage.retries == 0
    assert len([request for request in store.seen() if gone.endswith(request.path)]) <= 2


@pytest.mark.parametrize("fault", ["503", "reset"])
def test_a_write_that_fails_leaves_nothing_behind(store: SlowStore, catalog: Catalog, fault: str) -> None:
    table = catalog.create_table("db.small", schema=columns(id=pa.int64()))
    store.set(faults=[{"kind": fault, "times": 100, "path": "/data/", "method": method} for method in ("PUT", "POST")])
    with pytest.raises(StorageError):
        formatkit.append(table, pa.table({"id": range(10)}))
    store.set()
    folder = f"{table.location().removeprefix('s3://')}/data"
    found = store.filesystem().get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    assert [file.path for file in found if file.is_file] == []
    assert formatkit.scan(table.refresh()).count() == 0
