"""The names that writers of Iceberg tables give to their files. No other file is ever taken for an orphan."""

from __future__ import annotations

import re

__all__ = ["checksummed_name", "is_data_name", "is_metadata_name", "is_table_metadata"]

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FORMAT = r"(?:parquet|orc|avro|vortex|lance|arrow)"
_QUERY = r"\d{8}_\d{6}_\d{5}_[0-9a-z]{5}"
# Hadoop's spelling and that of the spec both have the codec before or after the ending.
_TABLE_METADATA = r"(?:\.gz)?\.metadata\.json(?:\.gz)?"

# Of each writer: how it names data files, delete files and deletion vectors.
_DATA = {
    "formatkit": rf"\d{{5,}}-{_UUID}-\d{{5,}}(?:\.{_FORMAT}|-deletes\.(?:{_FORMAT}|puffin))",
    "pyiceberg, iceberg-go": rf"\d{{5,}}-\d+-{_UUID}\.{_FORMAT}",
    # Spark's streaming writes put the epoch behind the id of the query, Flink's dynamic sink its own id at the end.
    "Iceberg for Java: Spark, Flink, Kafka Connect": (
        rf"\d{{5,}}-\d+-{_UUID}(?:-\d+)?-\d{{5,}}(?:-{_UUID})?(?:-deletes)?\.(?:{_FORMAT}|puffin)"
    ),
    "Hive": rf"\d{{5,}}-\d+-[A-Za-z0-9_.]+_\d{{14}}_{_UUID}-job_\d+_\d+-\d{{5,}}(?:-deletes)?\.{_FORMAT}",
    "Trino, Athena": rf"{_QUERY}-{_UUID}\.(?:{_FORMAT}|puffin)",
}

# Of each kind of metadata: how its files are named.
_METADATA = {
    "manifests": rf"{_UUID}-m\d+\.avro",
    "manifests that Spark rewrote": rf"optimized-m-{_UUID}\.avro",
    "manifests of a Flink job before its commit": (
        rf"[0-9a-f]{{32}}-(?:[0-9a-f]{{32}}|{_UUID})-\d{{5,}}-\d+-\d+-\d{{5,}}(?:-{_UUID})?\.avro"
    ),
    "manifest lists": rf"snap-\d+-\d+-{_UUID}\.avro",
    "table metadata": rf"\d{{5,}}-{_UUID}{_TABLE_METADATA}",
    "table metadata of Hadoop catalogs": rf"v\d+{_TABLE_METADATA}",
    "table metadata of Hadoop catalogs before it is renamed": rf"{_UUID}{_TABLE_METADATA}",
    "statistics of Spark and Trino": rf"(?:\d+|{_QUERY})-{_UUID}\.stats|\d+-{_UUID}\.puffin",
    "partition statistics": rf"partition-stats-\d+-{_UUID}\.{_FORMAT}",
}

_PARTIAL = r"\.[0-9a-f]{32}\.partial"
"""A local file that formatkit has not closed yet."""

_DATA_NAME = re.compile(
    # The object store layout without partition paths puts the rest of the hash before the name.
    rf"(?:[01]{{8}}-)?(?:{'|'.join(_DATA.values())})|{_PARTIAL}",
    re.ASCII,
)
_METADATA_NAME = re.compile("|".join((*_METADATA.values(), _PARTIAL)), re.ASCII)
_TABLE_METADATA_NAME = re.compile(rf".*{_TABLE_METADATA}", re.ASCII | re.DOTALL)
_CHECKSUM = re.compile(r"\.([^/]+)\.crc", re.ASCII)


def is_data_name(name: str) -> bool:
    """Whether a writer names data files, delete files or deletion vectors so."""
    return _DATA_NAME.fullmatch(name) is not None


def is_metadata_name(name: str) -> bool:
    """Whether a writer names files of a table's metadata folder so."""
    return _METADATA_NAME.fullmatch(name) is not None


def is_table_metadata(name: str) -> bool:
    """Whether a file may be the metadata of a table, whoever wrote it."""
    return _TABLE_METADATA_NAME.fullmatch(name) is not None


def checksummed_name(name: str) -> str | None:
    """The name of the file to which one of Hadoop's checksum files belongs; None for other files."""
    found = _CHECKSUM.fullmatch(name)
    return None if found is None else found[1]
