"""Hostile metadata gives a typed error or rows: never the end of the process, a hang or endless memory.

Nothing of a table is trusted: neither its metadata file nor manifest lists, manifests and Puffin files.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform

import formatkit
from formatkit.io import MemorySource
from formatkit.puffin import read_deletion_vector, read_footer
from formatkit.write.commit import enable_version3
from formatkit.write.commit.records import ManifestReader
from support.damage import Damage, read_all
from support.mutations import avro, jsons, puffin

# 100 in CI, 5,000 in a long run, which are never the same unless DAMAGE_SEED says so.
MUTANTS = settings.default.max_examples  # type: ignore[union-attr]
CHANCE = Random().randrange(1 << 32) if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 11
SEED = int(os.environ.get("DAMAGE_SEED", CHANCE))
MAX_MEMORY = 2 << 30
QUESTIONS = (None, "id > 1 and name like 'a%'", "price >= 1.00 or moment < '2024-01-01T00:00:00'")

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "name": ["a", "ab", None, "b"],
        "price": pa.array([Decimal("1.25"), None, Decimal("-3.00"), Decimal("9.99")], pa.decimal128(9, 2)),
        "moment": pa.array(
            [datetime(2023, 1, 1), datetime(2024, 6, 1), None, datetime(1969, 1, 1)], pa.timestamp("us")
        ),
        "tags": [["x"], [], None, ["y", "z"]],
    }
)

Mutants = Callable[[bytes, Random], Iterator[bytes]]


def make_table(folder: Path, version: int) -> Table:
    """A table with every kind of transform, and with deletes of each kind that its version has."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    try:
        catalog.create_namespace("ns")
        enable_version3()
        table = catalog.create_table("ns.t", ROWS.schema, properties={"format-version": str(version)})
        formatkit.append(table, ROWS)
        with table.update_spec() as update:
            update.add_field("name", IdentityTransform(), "name")
            update.add_field("id", BucketTransform(4), "bucket")
            update.add_field("price", TruncateTransform(10), "price10")
            update.add_field("moment", DayTransform(), "day")
        formatkit.append(table, ROWS)
        formatkit.delete(table, "id = 2", mode="copy-on-write" if version == 1 else "merge-on-read")
        return table.refresh()
    finally:
        catalog.close()


@cache
def known_table(root: Path, version: int) -> Table:
    folder = root / str(version)
    folder.mkdir()
    return make_table(folder, version)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def use(metadata_location: str, path: Path, data: bytes) -> int:
    """Plan, read and look at a table as a writer does, with one file of its metadata replaced."""
    resource.setrlimit(resource.RLIMIT_AS, (4 * MAX_MEMORY, 4 * MAX_MEMORY))
    sound = path.read_bytes()
    path.write_bytes(data)
    try:
        table = formatkit.load_table(metadata_location)
        failure: Exception | None = None
        for action in (_scanned, _rewritten, _planned):
            try:
                action(table)
            except formatkit.errors.FormatkitError as error:
                failure = error
        if failure is not None:
            raise failure
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    finally:
        path.write_bytes(sound)


def _planned(table: StaticTable) -> None:
    for question in QUESTIONS:
        scan = formatkit.scan(table, question)
        scan.buckets(3)
        str(scan.explain())


def _scanned(table: StaticTable) -> None:
    formatkit.scan(table).to_arrow()


def _rewritten(table: StaticTable) -> None:
    """What a commit reads of the table that it changes."""
    reader = ManifestReader(table.metadata, table.io)
    manifests = reader.manifests(table.current_snapshot())
    list(reader.locations(manifests))
    for manifest in manifests:
        list(reader.entries(manifest))


def check(read: Callable[[bytes], Any], data: bytes, mutants: Mutants, count: int = MUTANTS) -> None:
    found = islice(mutants(data, Random(SEED)), count)
    cases = [Damage(f"mutant {number} of seed {SEED}", 0, mutant) for number, mutant in enumerate(found)]
    outcomes = read_all(read, cases)
    untyped = [(case.what, each.untyped) for case, each in zip(cases, outcomes, strict=True) if each.untyped]
    assert not untyped
    assert sum(bool(each.typed) for each in outcomes) > count / 10
    assert max((each.answer for each in outcomes if each.answer), default=0) < MAX_MEMORY


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_hostile_metadata_file_gives_rows_or_a_typed_error(root: Path, version: int) -> None:
    table = known_table(root, version)
    path = path_of(table.metadata_location)
    check(partial(use, table.metadata_location, path), path.read_bytes(), jsons.mutants)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_hostile_manifest_list_gives_rows_or_a_typed_error(root: Path, version: int) -> None:
    table = known_table(root, version)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    path = path_of(snapshot.manifest_list)
    check(partial(use, table.metadata_location, path), path.read_bytes(), avro.mutants)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("deletes", [False, True], ids=["data", "deletes"])
def test_a_hostile_manifest_gives_rows_or_a_typed_error(root: Path, version: int, deletes: bool) -> None:
    table = known_table(root, version)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    paths = [path_of(each.manifest_path) for each in snapshot.manifests(table.io) if each.content == deletes]
    if deletes and version == 1:
        assert not paths
        return
    check(partial(use, table.metadata_location, paths[0]), paths[0].read_bytes(), avro.mutants)


def test_a_hostile_puffin_file_gives_rows_or_a_typed_error(root: Path) -> None:
    table = known_table(root, 3)
    [path] = path_of(table.location()).rglob("*.puffin")
    check(partial(use, table.metadata_location, path), path.read_bytes(), puffin.mutants)
    check(read_vectors, path.read_bytes(), puffin.mutants)


def read_vectors(data: bytes) -> int:
    source = MemorySource(data)
    for blob in read_footer(source).blobs:
        read_deletion_vector(source, blob.offset, blob.length)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
