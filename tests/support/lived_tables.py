"""Hypothesis strategies for tables that have lived: schemas that changed, files of all ages and formats, partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import StaticTable
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import TableVersion
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
)

from formatkit.contract import Capability, FormatPlugin, Split
from formatkit.registry import default_registry
from formatkit.scan import Scan
from formatkit.tck.histories import histories
from formatkit.tck.kits import SMALL_CHUNKS
from formatkit.tck.naive import File
from formatkit.tck.strategies import rows, values
from formatkit.tck.tables import make_table, write_parquet, write_with

__all__ = ["LivedTable", "in_splits", "installed_formats", "lived_tables"]

_PARTITION_ID = 1000
_PARTITIONED = (BooleanType, IntegerType, LongType, StringType, DateType, TimestampType, DecimalType)


@dataclass(frozen=True, kw_only=True)
class LivedTable:
    """What to put on disk, and how."""

    schemas: tuple[Schema, ...]
    files: tuple[File, ...]
    spec: PartitionSpec
    format_version: TableVersion
    properties: dict[str, str]
    ids: bool
    parquet: dict[str, Any]

    @property
    def schema(self) -> Schema:
        return self.schemas[-1]

    @property
    def changed(self) -> set[int]:
        """Ids of the fields that some file lacks or stores with another type."""
        current = index_by_id(self.schema)
        stored = [index_by_id(file.schema) for file in self.files]
        return {
            field_id
            for field_id, field in current.items()
            if any(field_id not in old or old[field_id].field_type != field.field_type for old in stored)
        }

    def build(self, directory: Path) -> tuple[StaticTable, list[File]]:
        """The table, and its files with their locations."""
        files = [self._write(directory, number, file) for number, file in enumerate(self.files)]
        table = make_table(
            directory,
            self.schemas,
            files,
            specs=[self.spec],
            format_version=self.format_version,
            properties=self.properties,
        )
        return table, files

    def _write(self, directory: Path, number: int, file: File) -> File:
        path = directory / f"{number}.{file.file_format}"
        # Other hands than ours write Parquet here, and only they leave files without rows or ids.
        if file.file_format == "parquet":
            return write_parquet(path, file, ids=self.ids, **self.parquet)
        plugin = default_registry().plugin(file.file_format, pa.RecordBatch)
        return write_with(plugin, path, file, batch_rows=self.parquet["row_group_size"], properties=SMALL_CHUNKS)


def installed_formats(schema: Schema) -> list[str]:
    """The names of the formats that can store the schema."""
    nanoseconds = any(
        isinstance(field.field_type, TimestampNanoType | TimestamptzNanoType) for field in index_by_id(schema).values()
    )
    plugins: list[FormatPlugin[Any]] = [p for p in default_registry().plugins() if p.batch_type is pa.RecordBatch]
    return [p.file_format for p in plugins if Capability.NANOSECONDS in p.capabilities or not nanoseconds]


_PARQUET = st.fixed_dictionaries(
    {
        "row_group_size": st.integers(1, 12),
        "write_batch_size": st.integers(1, 4),
        "write_page_index": st.booleans(),
        "write_statistics": st.sampled_from([True, True, False]),
        "use_dictionary": st.booleans(),
        "store_schema": st.booleans(),
        "compression": st.sampled_from(["none", "snappy", "zstd"]),
    }
)
# The smallest pages that pyarrow writes rightly: below, it loses the only row of a row group if it is an empty list.
_PAGES = st.sampled_from(
    [{"data_page_version": "1.0", "data_page_size": 8}, {"data_page_version": "2.0", "data_page_size": 128}]
)


@st.composite
def lived_tables(draw: st.DrawFn) -> LivedTable:
    """Tables of up to three files, written at any time of the table's life."""
    schemas = draw(histories())
    ages = draw(st.lists(st.sampled_from(schemas[:-1] or schemas) | st.just(schemas[-1]), min_size=1, max_size=3))
    files = [
        File(schema=schema, rows=draw(rows(schema, min_size=draw(st.sampled_from([6, 6, 6, 0]))))) for schema in ages
    ]
    files = [
        replace(file, sequence_number=1, first_row_id=draw(st.sampled_from([None, 1000 * number])))
        for number, file in enumerate(files)
    ]
    spec = UNPARTITIONED_PARTITION_SPEC
    source = draw(st.sampled_from([None, *_partition_sources(schemas)]))
    if source is not None:
        spec = PartitionSpec(PartitionField(source.field_id, _PARTITION_ID, IdentityTransform(), "part"), spec_id=0)
        files = [_partitioned(draw, file, source) for file in files]
    version: TableVersion = draw(st.sampled_from([2, 3]))
    if version == 2:
        files = [replace(file, first_row_id=None) for file in files]
    # A name mapping can speak for the files of one age only: names move from column to column.
    ids = len({file.schema.schema_id for file in files}) > 1 or draw(st.sampled_from([True, True, False]))
    if ids:
        files = [_with_format(draw, file) for file in files]
    mapping = {} if ids else {"schema.name-mapping.default": create_mapping_from_schema(ages[0]).model_dump_json()}
    return LivedTable(
        schemas=schemas,
        files=tuple(files),
        spec=spec,
        format_version=version,
        properties=mapping,
        ids=ids,
        parquet=draw(_PARQUET) | draw(_PAGES),
    )


def _with_format(draw: st.DrawFn, file: File) -> File:
    others = installed_formats(file.schema) if file.rows else []
    return replace(file, file_format=draw(st.sampled_from(["parquet", *others])))


def _partition_sources(schemas: tuple[Schema, ...]) -> list[NestedField]:
    """Top-level fields of the current schema that never had another type."""
    return [
        field
        for field in schemas[-1].fields
        if isinstance(field.field_type, _PARTITIONED)
        and all(
            old.field_type == field.field_type
            for schema in schemas
            for old in schema.fields
            if old.field_id == field.field_id
        )
    ]


def _partitioned(draw: st.DrawFn, file: File, source: NestedField) -> File:
    """The file with one value in the partition column, which may be left out of the file as Hive does."""
    stored = [field for field in file.schema.fields if field.field_id == source.field_id]
    required = source.required or any(field.required for field in stored)
    value = draw(values(source.field_type) if required else st.none() | values(source.field_type))
    rows_ = [{**row, source.field_id: value} if stored else row for row in file.rows]
    schema = file.schema
    if stored and len(schema.fields) > 1 and draw(st.booleans()):
        rest = [field for field in schema.fields if field.field_id != source.field_id]
        schema = Schema(*rest, schema_id=schema.schema_id)
        rows_ = [{key: value for key, value in row.items() if key != source.field_id} for row in rows_]
    constants = {source.field_id: value}
    return replace(file, schema=schema, rows=rows_, partition={_PARTITION_ID: value}, constants=constants)


def in_splits(scan: Scan[Any], size: int) -> Scan[Any]:
    """The same scan, with every file cut into byte ranges of this size wherever they fall."""
    tasks = []
    for task in scan.tasks:
        assert task.size_bytes is not None
        cuts = [*range(0, task.size_bytes, size), task.size_bytes]
        tasks += [replace(task, split=Split(start, end - start)) for start, end in pairwise(cuts)]
    return scan.of_tasks(tasks)
