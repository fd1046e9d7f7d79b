"""Spark's own readers see what was written here, and we see what Spark's own writers write."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import MapType
from pyspark.sql import SparkSession

import formatkit
from formatkit.tck.naive import Row
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from support.everything import SCHEMA, without

# Spark's reader and writer of Avro come with it under this name; the short name wants a package from Maven.
SPARK_NAMES = {
    "parquet": "parquet",
    "orc": "orc",
    "avro": "org.apache.spark.sql.avro.AvroFileFormat",
}
# Spark has no such types.
NOT_WRITTEN = ("clock", "key", "code")
# Spark's Avro has no maps but those of strings, and its ORC knows neither kind of timestamp: one is stored as a number.
NOT_WRITTEN_TO = {"avro": ["by_number"], "orc": ["moment", "instant"]}
MOMENTS = [field.field_id for field in SCHEMA.fields if field.name in ("moment", "instant")]
MAPS = [field.field_id for field in SCHEMA.fields if isinstance(field.field_type, MapType)]
every_format = pytest.mark.parametrize("file_format", SPARK_NAMES)


@every_format
def test_spark_reads_what_was_written_here(spark: SparkSession, file_format: str, tmp_path: Path) -> None:
    # Spark takes a time in ORC and Avro for a number, and refuses a uuid in Parquet.
    schema, rows = without("clock", *(["key"] if file_format == "parquet" else []))
    if file_format == "orc":
        rows = [before_the_last_second(row) for row in rows]
    path = tmp_path / f"ours.{file_format}"
    formatkit.write_file(path, to_arrow(schema, rows), schema)
    seen = spark.read.format(SPARK_NAMES[file_format]).load(str(path)).toArrow()
    assert seen.column_names == [field.name for field in schema.fields]
    assert comparable(from_arrow(schema, seen)) == comparable(rows)


def before_the_last_second(row: Row) -> Row:
    """The same row without the microsecond before 1970, for which ORC has no form that Java understands."""
    return {key: -1_500_000_001 if key in MOMENTS and value == -1 else value for key, value in row.items()}


def with_sorted_maps(rows: list[Row]) -> list[Row]:
    """The same rows, maps sorted by their keys, as Spark's writer of ORC does."""
    return [
        {key: sorted(value) if key in MAPS and value is not None else value for key, value in row.items()}
        for row in rows
    ]


@every_format
def test_what_spark_wrote_is_read_here(spark: SparkSession, file_format: str, tmp_path: Path) -> None:
    schema, rows = without(*NOT_WRITTEN, *NOT_WRITTEN_TO.get(file_format, ()))
    frame = spark.createDataFrame(to_arrow(schema, rows, ids=False))
    frame.coalesce(1).write.format(SPARK_NAMES[file_format]).save(str(tmp_path / "theirs"))
    (path,) = (tmp_path / "theirs").glob(f"*.{file_format}")
    scan = formatkit.read_file(path, missing_ids="by-name", schema=schema)
    assert comparable(with_sorted_maps(from_arrow(schema, scan.to_arrow()))) == comparable(with_sorted_maps(rows))
    found = formatkit.read_file(
        path, "small > -5 and (text = '' or text is null)", schema=schema, missing_ids="by-name"
    )
    expected = [row for row in rows if row[2] > -5 and row[12] in ("", None)]
    assert comparable(with_sorted_maps(from_arrow(schema, found.to_arrow()))) == comparable(with_sorted_maps(expected))
