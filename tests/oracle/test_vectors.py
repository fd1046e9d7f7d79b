"""Deletion vectors are the same bytes here as in Java, and the same rows are deleted by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

import formatkit
from formatkit.puffin import DeletionVector
from formatkit.write.deletes import write_deletion_vectors
from support.oracle.java_table import JavaTable
from support.oracle.servant import Servant
from support.oracle.shared_table import SharedTable

SCHEMA = Schema(NestedField(1, "id", IntegerType()))
RANDOM = np.random.default_rng(5)
# Each becomes another kind of container in a Roaring bitmap, or several of them.
POSITIONS: dict[str, NDArray[np.int64]] = {
    "one": np.array([0]),
    "few": np.array([3, 70_000, 5, 65_535, 65_536]),
    "a run": np.arange(1000, 90_000),
    "every other": np.arange(0, 70_000, 2),
    "runs of four": np.flatnonzero(np.arange(140_000) % 8 < 4),
    "random": np.unique(RANDOM.integers(0, 300_000, 20_000)),
    "a full container": np.arange(65_536, 131_072),
    "4096 and 4097": np.concatenate([np.arange(4096) * 3, 65_536 + np.arange(4097) * 3]),
    "beyond 32 bits": np.array([1, 2**32 + 7, 2**33, 2**33 + 1]),
}
# Java writes an empty bitmap for each high half that is left out, which the spec does not ask for.
WITH_GAPS = np.array([0, 2**34 + 7, 2**37])


@pytest.mark.parametrize("name", POSITIONS)
def test_vectors_are_the_same_bytes(java: Servant, name: str, tmp_path: Path) -> None:
    positions = POSITIONS[name]
    table, blob = vector_of_java(java, tmp_path, positions)
    assert DeletionVector.from_positions(positions).to_bytes() == blob
    assert formatkit.scan(table.load()).to_arrow().num_rows == 1 - int(0 in positions)


def test_each_side_reads_vectors_with_gaps(java: Servant, tmp_path: Path) -> None:
    table, blob = vector_of_java(java, tmp_path, WITH_GAPS)
    assert np.array_equal(DeletionVector.parse(blob, "").positions, WITH_GAPS)
    assert formatkit.scan(table.load()).to_arrow().num_rows == 0
    ours = SharedTable(java, tmp_path / "ours", SCHEMA, version=3)
    formatkit.append(ours.table, ours.arrow([{1: 1}, {1: 2}]))
    ((data, _), _) = ours.positions("id > 0")
    vectors = {data: DeletionVector.from_positions(WITH_GAPS)}
    ours.commit_deletes(*write_deletion_vectors(f"{ours.table.location()}/data/gaps.puffin", vectors))
    ours.check([{1: 2}])


def vector_of_java(java: Servant, folder: Path, positions: NDArray[np.int64]) -> tuple[JavaTable, bytes]:
    """A table of one row, and the vector that Java writes for its data file."""
    table = JavaTable.create(java, folder / "theirs", SCHEMA, version=3)
    (data,) = table.append([{1: 1}])
    table.row_delta(vectors=[(data, position) for position in positions.tolist()])
    ((vector,),) = [file["deletes"] for file in table.plan()["files"]]
    return table, Path(vector["path"]).read_bytes()[vector["offset"] :][: vector["length"]]


def test_java_deletes_the_rows_of_large_vectors(java: Servant, tmp_path: Path) -> None:
    shared = SharedTable(java, tmp_path, SCHEMA, version=3)
    rows = 150_000
    formatkit.append(shared.table, pa.table({"id": pa.array(range(rows), pa.int32())}))
    formatkit.delete(shared.table, "id >= 1000 and id < 60000")
    chosen = np.flatnonzero(np.arange(rows) % 7 == 3)[-9000:]
    formatkit.delete(shared.table, f"id in ({', '.join(map(str, chosen))})")
    left = set(range(rows)) - set(range(1000, 60_000)) - set(chosen.tolist())
    assert {row[1] for row in shared.by_java().rows()} == left


def test_footers_say_the_same(java: Servant, tmp_path: Path) -> None:
    theirs = JavaTable.create(java, tmp_path / "theirs", SCHEMA, version=3)
    ours = SharedTable(java, tmp_path / "ours", SCHEMA, version=3)
    files = []
    for start in (0, 10):
        rows = [{1: number} for number in range(start, start + 10)]
        files += theirs.append(rows)
        formatkit.append(ours.table, ours.arrow(rows))
    theirs.row_delta(vectors=[(files[0], 3), (files[1], 4), (files[1], 5)])
    formatkit.delete(ours.table, "id in (3, 14, 15)")
    assert vectors(ours.by_java()) == vectors(theirs)


def vectors(table: JavaTable) -> list[dict[str, Any]]:
    """All that a footer says but where, and that the manifest agrees with it."""
    deletes = [delete for file in table.plan()["files"] for delete in file["deletes"]]
    (location,) = {delete["path"] for delete in deletes}
    blobs = table.java.ask(do="puffin", location=location)["blobs"]
    references = {delete["offset"]: delete["refers_to"] for delete in deletes}
    assert {blob.pop("offset"): blob["properties"].pop("referenced-data-file") for blob in blobs} == references
    return sorted(blobs, key=lambda blob: blob["properties"]["cardinality"])
