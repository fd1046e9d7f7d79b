"""A disk that is full while the metadata of a commit is written: a typed error, the table as before, no half file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

import formatkit
from formatkit.errors import StorageError
from support.commits import new_sql_catalog, new_table

_PAGE = 4096
_PAGES = 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_PAGES * _PAGE}", "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def leave_free(disk: Path, pages: int) -> None:
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    state = os.statvfs(disk)
    ballast.write_bytes(bytes((state.f_bavail * state.f_frsize // _PAGE - pages) * _PAGE))


def files(*folders: Path) -> set[Path]:
    return {path for folder in folders for path in folder.rglob("*") if path.is_file()}


def failure_to_append(table: Table, id_: int) -> StorageError | None:
    try:
        formatkit.append(table, pa.table({"id": [id_]}))
    except StorageError as error:
        return error
    return None


def wide(columns: int) -> Schema:
    return Schema(*(NestedField(id_, "id" if id_ == 1 else f"c{id_}", LongType()) for id_ in range(1, columns + 1)))


@pytest.mark.parametrize(
    ("storage", "columns", "step"),
    [
        ("pyiceberg.io.pyarrow.PyArrowFileIO", 1, 1),
        ("pyiceberg.io.fsspec.FsspecFileIO", 1, 1),
        # The header of a manifest does not fit into the buffer of its file.
        ("pyiceberg.io.pyarrow.PyArrowFileIO", 1200, 30),
    ],
)
def test_a_disk_that_is_full_at_any_metadata_file_is_told_and_leaves_nothing(
    tmp_path: Path, small_disk: Path, storage: str, columns: int, step: int
) -> None:
    data = tmp_path / "data"
    properties = {"write.metadata.path": small_disk.as_uri(), "write.data.path": data.as_uri()}
    with closing(new_sql_catalog(tmp_path, **{"py-io-impl": storage})) as catalog:
        table = new_table(catalog, schema=wide(columns), properties=properties)
        formatkit.append(table, pa.table({"id": [1]}))
        failed = []
        location, free = table.metadata_location, 0
        leave_free(small_disk, free)
        before = files(small_disk, data)
        while (error := failure_to_append(table, 2)) is not None:
            assert "no space left on device" in str(error).lower()
            failed.append(error.location.rpartition("/")[2])  # type: ignore[attr-defined]
            assert files(small_disk, data) == before
            assert table.refresh().metadata_location == location
            free += step
            leave_free(small_disk, free)
        assert sorted(row["id"] for row in formatkit.scan(table.refresh()).to_arrow().to_pylist()) == [1, 2]
    assert any("-m" in name and name.endswith(".avro") for name in failed)
    assert any(name.startswith("snap-") for name in failed) or columns > 1
    assert any(name.endswith(".metadata.json") for name in failed)
