"""The part that cleans orphans in warehouses where tables live close together: no live file may go."""

from __future__ import annotations

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
from attack.cases import Case, Finding, Result, attempt
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from support.iceberg_tables import local_path
from support.references import referenced_locations

__all__ = ["run_cleaning"]

_AGE = timedelta(days=10)
# No "#" and no "?": pyiceberg takes what follows them for no part of the path, and writes all files to one place.
_FOLDERS = ["plain", "with%25percent", "with space", "ünï", "deep/er/still"]
_ODD = [
    "{0}#bak", "{0}?old", "{0}%20", "{0}.tmp", ".{0}", "{0}~", " {0}", "#{0}", "x{0}", "{0}.crc", "{0}\n", "%23{0}",
]  # fmt: skip


def run_cleaning(case: Case) -> Result:
    """Make a warehouse, plant orphans, clean, and look at every table."""
    root = case.folder / "warehouse"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    case.keep({"where": "orphans", "what": "cleaning a warehouse"})
    with SqlCatalog("attack", uri=f"sqlite:///{root}/catalog.db", warehouse=root.as_uri()) as catalog:
        return _Warehouse(root, catalog, case.random).attack()


class _Warehouse:
    def __init__(self, root: Path, catalog: Catalog, random: Random) -> None:
        self._root, self._catalog, self._random = root, catalog, random
        self._tables: list[str] = []
        self._planted: set[Path] = set()
        catalog.create_namespace("db")

    def attack(self) -> Result:
        random = self._random
        for number in range(random.randint(2, 4)):
            self._new_table(f"t{number}")
        if random.random() < 0.3:
            self._register_twice()
        if random.random() < 0.4:
            self._link()
        live = {name: self._live_files(name) for name in self._tables}
        rows = {name: self._rows(name) for name in self._tables}
        everything = sorted(set().union(*live.values()))
        for _ in range(random.randint(2, 12)):
            self._plant(random.choice(everything))
        self._age()
        result = Result()
        for name in random.sample(self._tables, random.randint(1, len(self._tables))):
            self._clean(name, result)
        for name in self._tables:
            lost = [str(path) for path in live[name] if not path.exists()]
            if lost:
                told = f"{name}: {len(lost)} live files were deleted, such as {lost[0]}"
                result.findings.append(Finding("deleted live file", "orphans", told))
            found, finding = attempt(lambda name=name: self._rows(name))
            if finding is not None or found != rows[name]:
                what = finding.what if finding else "other rows, or none"
                result.findings.append(Finding("lost rows", "orphans", f"{name}: {what}"))
        gone = sum(not path.is_symlink() and not path.exists() for path in self._planted)
        result.counts.update({"orphans planted": len(self._planted), "planted orphans deleted": gone})
        return result

    def _new_table(self, name: str) -> None:
        random = self._random
        folder = random.choice(_FOLDERS)
        location = f"{self._root.as_uri()}/{folder}/{name}"
        properties: dict[str, str] = {"format-version": random.choice(["1", "2"])}
        place = random.random()
        if self._tables and place < 0.3:
            # Inside the folder of another table.
            location = f"{self._load(random.choice(self._tables)).location()}/{random.choice(['data', 'inner'])}/{name}"
        elif place < 0.5:
            properties["write.data.path"] = f"{self._root.as_uri()}/shared data"
        elif self._tables and place < 0.65:
            properties["write.data.path"] = f"{self._load(self._tables[-1]).location()}/data"
        elif place < 0.75:
            properties["write.metadata.path"] = f"{self._root.as_uri()}/all metadata"
        schema = pa.schema([("id", pa.int64())])
        table = self._catalog.create_table(f"db.{name}", schema, location=location, properties=properties)
        for start in range(random.randint(1, 3)):
            formatkit.append(table, pa.table({"id": [start, start + 100]}))
        if random.random() < 0.5:
            formatkit.delete(table, "id = 0", "copy-on-write")
        self._tables.append(name)

    def _register_twice(self) -> None:
        name = self._random.choice(self._tables)
        twin = f"{name}_twin"
        self._catalog.register_table(f"db.{twin}", self._load(name).metadata_location)
        formatkit.append(self._load(twin), pa.table({"id": [7, 8]}))
        self._tables.append(twin)

    def _link(self) -> None:
        """A symbolic link from the folder of a table to that of another."""
        one, other = (self._load(self._random.choice(self._tables)) for _ in range(2))
        target = local_path(other.location())
        link = local_path(one.location()) / "data" / "link"
        if link.parent.is_dir() and not link.exists() and target.is_dir():
            link.symlink_to(target, target_is_directory=True)

    def _plant(self, beside: Path) -> None:
        name = self._random.choice([beside.name, f"{uuid4()}.parquet", f"00000-0-{uuid4()}.parquet"])
        shape = self._random.choice([*_ODD, "{0}"])
        path = beside.parent / shape.format(name)
        if not path.exists() and path.parent.is_dir():
            path.write_bytes(b"nobody knows me")
            self._planted.add(path)

    def _age(self) -> None:
        old = time.time() - _AGE.total_seconds()
        for path in self._root.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.name != "catalog.db":
                os.utime(path, (old, old))

    def _clean(self, name: str, result: Result) -> None:
        table, unloaded = attempt(lambda: self._load(name))
        if table is None:
            what = unloaded.what if unloaded else "cannot be loaded"
            result.findings.append(Finding("lost rows", "orphans", f"{name}: {what}"))
            return
        places: list[str | None] = [None, None, None, f"{table.location()}/data", f"{table.location()}/."]
        places += [self._root.as_uri(), f"{self._root.as_uri()}/", f"{table.location()}/..", "file:///."]
        if "write.data.path" in table.properties:
            places.append(table.properties["write.data.path"])
        options: dict[str, Any] = {"older_than": timedelta(days=3), "dry_run": False}
        location = self._random.choice(places)
        if location == "file:///.":
            options["dry_run"] = True  # what it would delete is not the attack's to lose
        if location is not None:
            options["location"] = location
        report, finding = attempt(lambda: formatkit.clean_orphans(table, **options))
        if finding is not None:
            told = f"clean_orphans of {name} at {location}: {finding.what}"
            result.findings.append(Finding(finding.kind, "orphans", told, finding.cause))
        result.counts["cleanings refused" if report is None else "cleanings"] += 1
        if location == "file:///." and report is not None and report.orphans:
            told = f"{location}: {len(report.orphans)} files of this machine would be deleted"
            result.findings.append(Finding("deleted live file", "orphans", told))

    def _load(self, name: str) -> Table:
        return self._catalog.load_table(f"db.{name}")

    def _rows(self, name: str) -> list[Any]:
        return sorted(formatkit.scan(self._load(name)).to_arrow()["id"].to_pylist(), key=repr)

    def _live_files(self, name: str) -> set[Path]:
        return {local_path(location) for location in referenced_locations(self._load(name))} | {
            self._root / "catalog.db"
        }
