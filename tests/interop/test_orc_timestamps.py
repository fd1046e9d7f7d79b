"""Java's reader of ORC sees timestamps as they were written here: before 1970, at every level, and behind filters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.orc
import pyorc
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)
from pyspark.sql import SparkSession

import formatkit
from formatkit.tck.naive import Row
from formatkit.tck.rows import comparable, from_arrow, to_arrow

ROWS = 24_000
STRIPE_ROWS = 6_000
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "text", StringType(), required=True),
    NestedField(3, "at", TimestampType()),
    NestedField(4, "zoned", TimestamptzType()),
    NestedField(5, "fine", TimestampNanoType()),
    NestedField(6, "fine_zoned", TimestamptzNanoType(), required=True),
    NestedField(7, "pair", StructType(NestedField(10, "n", LongType()), NestedField(11, "at", TimestampType()))),
    NestedField(8, "several", ListType(12, TimestamptzType(), element_required=False)),
    NestedField(9, "by_time", MapType(13, TimestampType(), 14, TimestampType(), value_required=False)),
)
NANO_FIELDS = (5, 6)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def storable(micros: int) -> int:
    """ORC has no form for most of the last second before 1970."""
    return micros if not -1_000_000 < micros < 0 else micros - 1_000_000


def make_rows() -> list[Row]:
    rng = np.random.default_rng(5)
    century = 100 * 365 * 86_400_000_000
    around_1970 = [storable(int(one)) for one in rng.integers(-3_000_000, 3_000_000, ROWS)]
    far = [storable(int(one)) for one in rng.integers(-century, century // 4, ROWS)]
    whole = [one // 1_000_000 * 1_000_000 for one in far]
    millis = [one // 1000 * 1000 + int(more) for one, more in zip(far, rng.integers(0, 2, ROWS), strict=True)]
    nulls = rng.random((ROWS, 4)) < 0.2
    rows = []
    for i in range(ROWS):
        # One stripe has no timestamps but required ones, the first has none before 1970.
        none = 2 * STRIPE_ROWS <= i < 3 * STRIPE_ROWS
        sign = -1 if i < STRIPE_ROWS else 1
        moments = [abs(one[i]) if sign < 0 else one[i] for one in (around_1970, far, whole, millis)]
        rows.append(
            {
                1: i,
                2: f"row {i}",
                3: None if none or nulls[i, 0] else moments[i % 4],
                4: None if none or nulls[i, 1] else moments[0],
                5: None if none or nulls[i, 2] else moments[3] * 1000,
                6: moments[1] * 1000,
                7: None if none or nulls[i, 3] else {10: i, 11: None if nulls[i, 0] else moments[0]},
                8: None if none or nulls[i, 2] else [None if nulls[i, 1] else moments[j % 4] for j in range(i % 4)],
                9: None if none else [(moments[3], None if nulls[i, 0] else moments[1])][: i % 3],
            }
        )
    return rows


CONTENT = make_rows()
TABLE = to_arrow(SCHEMA, CONTENT)


@pytest.fixture(scope="module", params=["none", "zlib"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    location: Path = tmp_path_factory.mktemp("moments") / f"{request.param}.orc"
    properties = {
        "write.orc.compression-codec": request.param,
        "write.orc.vectorized.batch-size": str(STRIPE_ROWS // 6),
        "orc.row.index.stride": str(STRIPE_ROWS // 12),
        "write.orc.stripe-size-bytes": "3000000" if request.param == "none" else "10000",
        "orc.compress.size": "65536",
        "orc.dictionary.key.threshold": "0",
        "write.orc.bloom.filter.columns": "id,at,fine",
    }
    batches = TABLE.combine_chunks().to_batches(STRIPE_ROWS // 2)
    formatkit.write_file(location, batches, SCHEMA, properties=properties)
    with location.open("rb") as file:
        assert pyorc.Reader(file).num_of_stripes > 3
    return location


def in_micros(rows: list[Row]) -> list[Row]:
    """Rows as Spark has them, which knows no nanoseconds."""
    return [
        {key: value // 1000 if key in NANO_FIELDS and value is not None else value for key, value in row.items()}
        for row in rows
    ]


def seen_by_spark(spark: SparkSession, path: Path, where: str = "true") -> list[Row]:
    fields = [NestedField(5, "fine", TimestampType()), NestedField(6, "fine_zoned", TimestamptzType(), required=True)]
    micros = {field.field_id: field for field in fields}
    schema = Schema(*(micros.get(field.field_id, field) for field in SCHEMA.fields))
    return from_arrow(schema, spark.read.orc(str(path)).where(where).toArrow())


def test_spark_reads_every_timestamp(spark: SparkSession, path: Path) -> None:
    assert comparable(seen_by_spark(spark, path)) == comparable(in_micros(CONTENT))


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("id = 7777", lambda row: row[1] == 7777),
        ("id >= 23990", lambda row: row[1] >= 23_990),
        ("id in (1, 8999, 17001)", lambda row: row[1] in (1, 8999, 17_001)),
        ("at is null and id < 9000", lambda row: row[3] is None and row[1] < 9000),
        ("at < timestamp_ntz '1900-01-01'", lambda row: row[3] is not None and row[3] < -2_208_988_800_000_000),
        (
            "at between timestamp_ntz '1969-12-31 23:59:58' and timestamp_ntz '1970-01-01 00:00:00'",
            lambda row: row[3] is not None and -2_000_000 <= row[3] <= 0,
        ),
        ("zoned < timestamp '1969-12-31 23:59:58.5Z'", lambda row: row[4] is not None and row[4] < -1_500_000),
        ("zoned >= timestamp '1970-01-01 00:00:02.9Z'", lambda row: row[4] is not None and row[4] >= 2_900_000),
        ("pair.at < timestamp_ntz '1969-12-31 23:59:58'", lambda row: ((row[7] or {}).get(11) or 0) < -2_000_000),
    ],
)
def test_spark_finds_rows_by_filters(spark: SparkSession, path: Path, where: str, holds: Callable[[Row], bool]) -> None:
    expected = [row for row in CONTENT if holds(row)]
    assert expected
    assert comparable(seen_by_spark(spark, path, where)) == comparable(in_micros(expected))


@pytest.mark.parametrize("number", [3, 8_123, 20_001])
def test_spark_finds_a_moment_by_its_value(spark: SparkSession, path: Path, number: int) -> None:
    row = next(row for row in CONTENT[number:] if row[3] is not None)
    moment = EPOCH + timedelta(microseconds=row[3])
    expected = [other for other in CONTENT if other[3] == row[3]]
    found = seen_by_spark(spark, path, f"at = timestamp_ntz '{moment:%Y-%m-%d %H:%M:%S.%f}'")
    assert comparable(found) == comparable(in_micros(expected))


def test_others_read_the_same(path: Path) -> None:
    assert comparable(from_arrow(SCHEMA, formatkit.read_file(path).to_arrow())) == comparable(CONTENT)
    assert comparable(from_arrow(SCHEMA, pyarrow.orc.read_table(path))) == comparable(CONTENT)
    with path.open("rb") as file:
        for row, found in zip(CONTENT, pyorc.Reader(file, column_names=["at", "zoned"]), strict=True):
            assert found == (_moment(row[3]), _moment(row[4]))


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("at < '1969-12-31T23:59:58'", lambda row: row[3] is not None and row[3] < -2_000_000),
        ("zoned >= '1970-01-01T00:00:02.9+00:00'", lambda row: row[4] is not None and row[4] >= 2_900_000),
    ],
)
def test_statistics_skip_no_matching_stripe(path: Path, where: str, holds: Callable[[Row], bool]) -> None:
    found = from_arrow(SCHEMA, formatkit.read_file(path, where).to_arrow())
    assert comparable(found) == comparable(row for row in CONTENT if holds(row))
