"""Hostile metadata gives a typed error or rows: never the end of the process, a hang or endless memory.

Nothing of a table is trusted: neither its metadata file nor manifest lists, manifests and Puffin files.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import settings
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform

import formatkit
from formatkit.errors import FormatkitError
from formatkit.write.commit import enable_version3
from formatkit.write.commit.records import ManifestReader
from support.damage import Damage, read_all
from support.memory import peak_bytes
from support.mutations import avro, jsons, puffin

# 50 of each file in CI, 2,500 in a long run, which are never the same unless DAMAGE_SEED says so.
MUTANTS = settings.default.max_examples // 2  # type: ignore[union-attr]
CHANCE = Random().randrange(1 << 32) if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 11
SEED = int(os.environ.get("DAMAGE_SEED", CHANCE))
MAX_MEMORY = 1 << 30
ADDRESSES = 8 << 30
QUESTIONS = ("id > 1 and name like 'a%'", "price >= 1.00 or moment < '2024-01-01T00:00:00'")
MUTANTS_OF = {".json": jsons.mutants, ".avro": avro.mutants, ".puffin": puffin.mutants}

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "name": ["a", "ab", None, "b"],
        "price": pa.array([Decimal("1.25"), None, Decimal("-3.00"), Decimal("9.99")], pa.decimal128(9, 2)),
        "moment": pa.array([datetime(2023, 1, 1), datetime(2024, 6, 1), None, datetime(1969, 1, 1)]),
        "tags": [["x"], [], None, ["y", "z"]],
    }
)


def make_table(folder: Path, version: int) -> Table:
    """A table with several transforms and two specs, and with deletes if its version has them."""
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


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def metadata_files(table: Table) -> Iterator[Path]:
    """Those that the current snapshot needs."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    yield path_of(table.metadata_location)
    yield path_of(snapshot.manifest_list)
    yield from (path_of(each.manifest_path) for each in snapshot.manifests(table.io))
    yield from path_of(table.location()).rglob("*.puffin")


def use(metadata_location: str, path_and_content: bytes) -> int:
    """Plan and read a table, and look at it as a commit does, with one file of its metadata replaced."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    name, _, content = path_and_content.partition(b"\n")
    path = Path(name.decode())
    sound = path.read_bytes()
    path.write_bytes(content)
    try:
        table = formatkit.load_table(metadata_location)
        failures = [error for action in (planned, scanned, rewritten) if (error := failure(action, table))]
        if failures:
            raise failures[0]
        return peak_bytes()
    finally:
        path.write_bytes(sound)


def failure(action: object, table: StaticTable) -> FormatkitError | None:
    try:
        action(table)  # type: ignore[operator]
    except FormatkitError as error:
        return error
    return None


def planned(table: StaticTable) -> None:
    for question in QUESTIONS:
        str(formatkit.scan(table, question).explain())


def scanned(table: StaticTable) -> None:
    formatkit.scan(table, threads=1).to_arrow()


def rewritten(table: StaticTable) -> None:
    reader = ManifestReader(table.metadata, table.io)
    manifests = reader.manifests(table.current_snapshot())
    list(reader.locations(manifests))
    for manifest in manifests:
        list(reader.entries(manifest))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_hostile_metadata_gives_rows_or_a_typed_error(tmp_path: Path, version: int) -> None:
    table = make_table(tmp_path, version)
    random = Random(SEED)
    cases = [
        Damage(f"mutant {number} of {path.name}, seed {SEED}", 0, f"{path}\n".encode() + mutant)
        for path in metadata_files(table)
        for number, mutant in enumerate(islice(MUTANTS_OF[path.suffix](path.read_bytes(), random), MUTANTS))
    ]
    outcomes = read_all(partial(use, table.metadata_location), cases)
    assert not [(case.what, each.untyped) for case, each in zip(cases, outcomes, strict=True) if each.untyped]
    assert sum(bool(each.typed) for each in outcomes) > len(cases) / 3
    assert max(each.answer for each in outcomes if each.answer) < MAX_MEMORY
