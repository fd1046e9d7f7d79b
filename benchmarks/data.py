"""The table that is measured: ten columns, one of them sorted, in files as an Iceberg writer would leave them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

__all__ = ["FILES", "link_copies", "make_benchmark_table"]

FILES = 4
ROW_GROUP_ROWS = 1_000_000

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "key", LongType()),
    NestedField(3, "quantity", IntegerType()),
    NestedField(4, "price", DoubleType()),
    NestedField(5, "amount", DecimalType(12, 2)),
    NestedField(6, "at", TimestamptzType()),
    NestedField(7, "day", DateType()),
    NestedField(8, "city", StringType()),
    NestedField(9, "comment", StringType()),
    NestedField(10, "flag", BooleanType()),
)


def make_benchmark_table(directory: Path, rows: int) -> str:
    """Write the table unless it is there already, and return the location of its metadata."""
    marker = directory / f"metadata-location-{rows}"
    if marker.exists():
        return marker.read_text()
    directory.mkdir(parents=True, exist_ok=True)
    table = _create(directory, f"rows_{rows}")
    size = rows // FILES
    for number in range(FILES):
        path = Path(directory / f"rows-{rows}-{number}.parquet")
        _write(path, number * size, size)
        _commit(table, [path])
    marker.write_text(table.metadata_location)
    return table.metadata_location


def link_copies(directory: Path, metadata_location: str, files: list[str], copies: int) -> str:
    """A table that holds every file `copies` times, by hard links: as large as one likes, for the price of nothing."""
    table = _create(directory, f"copies_{copies}_{abs(hash(metadata_location))}")
    links = []
    for copy in range(copies):
        for file in files:
            link = directory / f"{Path(file).stem}-{os.getpid()}-{copy}.parquet"
            os.link(file, link)
            links.append(link)
    _commit(table, links)
    return table.metadata_location


def _create(directory: Path, name: str) -> Table:
    catalog = SqlCatalog("bench", uri=f"sqlite:///{directory}/catalog.db", warehouse=directory.as_uri())
    catalog.create_namespace_if_not_exists("bench")
    if catalog.table_exists(f"bench.{name}"):
        catalog.drop_table(f"bench.{name}")
    return catalog.create_table(f"bench.{name}", SCHEMA)


def _write(path: Path, start: int, rows: int) -> None:
    random = np.random.default_rng(start + 1)
    cities = pa.array([f"city-{number:03}" for number in range(500)])
    quantity = random.integers(0, 1000, rows).astype(np.int32)
    nulls = random.random(rows) < 0.05
    cents = random.integers(0, 10**9, rows)
    columns = [
        pa.array(np.arange(start, start + rows)),
        pa.array(random.integers(0, 2**40, rows)),
        pa.array(quantity, mask=nulls),
        pa.array(random.normal(100, 20, rows)),
        pa.array(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
        pa.array(1_700_000_000_000_000 + np.arange(start, start + rows) * 1000, pa.timestamp("us", tz="UTC")),
        pa.array((19_000 + random.integers(0, 365, rows)).astype(np.int32), pa.date32()),
        pa.DictionaryArray.from_arrays(random.integers(0, 500, rows).astype(np.int32), cities).cast(pa.string()),
        pa.array(np.char.add("comment ", random.integers(0, 10**9, rows).astype(str))),
        pa.array(random.random(rows) < 0.5),
    ]
    table = pa.Table.from_arrays(columns, names=[field.name for field in SCHEMA.fields])
    pq.write_table(
        table.cast(schema_to_pyarrow(SCHEMA)),
        path,
        compression="zstd",
        row_group_size=ROW_GROUP_ROWS,
        write_page_index=True,
        store_decimal_as_integer=True,
    )


def _commit(table: Table, paths: list[Path]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for path in paths:
            append.append_data_file(_data_file(table, path))


def _data_file(table: Table, path: Path) -> DataFile:
    metadata = pq.read_metadata(path)
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=metadata,
        stats_columns=compute_statistics_plan(table.schema(), table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(table.schema()),
    )
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path.as_uri(),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=path.stat().st_size,
        **statistics.to_serialized_dict(),
    )
    data_file.spec_id = table.spec().spec_id
    return data_file
