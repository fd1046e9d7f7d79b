"""Files that look like what writers of Iceberg tables leave behind, and the means to make them old."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from pyiceberg.table import Table

from support.iceberg_tables import local_path

__all__ = ["DATA_NAMES", "METADATA_NAMES", "add_file", "data_names", "files_of", "make_old", "metadata_names"]

_DAY = 86_400

# By writer, with a place for a UUID.
DATA_NAMES = {
    "formatkit": "00000-{}-00001.parquet",
    "formatkit, ORC": "00012-{}-00003.orc",
    "formatkit, Avro": "00012-{}-00003.avro",
    "formatkit, Vortex": "00012-{}-00003.vortex",
    "formatkit, Lance": "00012-{}-00003.lance",
    "formatkit, Arrow": "00012-{}-00003.arrow",
    "formatkit, position deletes": "00000-{}-00001-deletes.parquet",
    "formatkit, deletion vectors": "00000-{}-00001-deletes.puffin",
    "pyiceberg": "00000-7-{}.parquet",
    "Spark": "00003-1234-{}-00001.parquet",
    "Spark, a large task": "123456-9876543210-{}-00001.parquet",
    "Spark, ORC": "00003-1234-{}-00002.orc",
    "Spark, streaming": "00003-1234-{}-17-00001.parquet",
    "Spark, position deletes": "00003-1234-{}-00001-deletes.parquet",
    "Spark, deletion vectors": "00003-1234-{}-00001-deletes.puffin",
    "Flink": "00000-0-{}-00042.avro",
    "Kafka Connect": "00001-1700000000000-{}-00001.parquet",
    "Hive": "00000-0-root_20240102030405_{}-job_17000000000000_0001-00001.orc",
    "Trino": "20240102_030405_00042_abc12-{}.parquet",
    "Trino, deletion vectors": "20240102_030405_00042_abc12-{}.puffin",
    "Hadoop's checksum": ".00003-1234-{}-00001.parquet.crc",
    "object store layout": "10110010-00003-1234-{}-00001.parquet",
}
METADATA_NAMES = {
    "manifest": "{}-m0.avro",
    "manifest, many": "{}-m12.avro",
    "manifest list": "snap-8380523412345678901-1-{}.avro",
    "rewritten manifest": "optimized-m-{}.avro",
    "metadata": "00009-{}.metadata.json",
    "compressed metadata": "00009-{}.gz.metadata.json",
    "metadata of Hadoop": "v7654321.metadata.json",
    "metadata of Hadoop, not renamed": "{}.metadata.json",
    "statistics of Spark": "8380523412345678901-{}.stats",
    "statistics of Trino": "20240102_030405_00042_abc12-{}.stats",
    "partition statistics": "partition-stats-8380523412345678901-{}.parquet",
    "manifest of Flink": "0123456789abcdef0123456789abcdef-fedcba9876543210fedcba9876543210-00000-0-5-00001.avro",
    "Hadoop's checksum": ".{}-m0.avro.crc",
}


def data_names() -> Iterator[str]:
    """A name of each kind of data file."""
    yield from (name.format(uuid4()) for name in DATA_NAMES.values())
    yield f".{uuid4().hex}.partial"


def metadata_names() -> Iterator[str]:
    """A name of each kind of metadata file."""
    yield from (name.format(uuid4()) for name in METADATA_NAMES.values())
    yield f".{uuid4().hex}.partial"


def make_old(path: str | Path, days: float = 10) -> None:
    """Let files look as if they had been written days ago: one, or all in a folder. Links are left alone."""
    moment = time.time() - days * _DAY
    for each in (Path(path), *Path(path).rglob("*")):
        if each.is_file() and not each.is_symlink():
            os.utime(each, (moment, moment))


def add_file(table: Table, name: str, content: bytes = b"left behind", *, days: float = 10) -> str:
    """An old file in a table's folder; returns its location."""
    location = f"{table.location()}/{name}"
    path = local_path(location)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    make_old(path, days)
    return location


def files_of(folder: str | Path) -> set[Path]:
    """All files in a folder."""
    return {path for path in Path(folder).rglob("*") if path.is_file()}
