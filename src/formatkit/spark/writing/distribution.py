"""Which task gets which rows before they are written, and in which order: `write.distribution-mode`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyspark.sql.functions as f
import pyspark.sql.types as st
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
)
from pyspark.sql import Column, DataFrame, SparkSession

from formatkit.contract.fields import field_path
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.forks import fork_safe
from formatkit.spark.java import is_since, scala_seq
from formatkit.spark.session import quoted
from formatkit.spark.types import spark_schema
from formatkit.spark.writing.incoming import from_spark
from formatkit.spark.writing.options import WriteOptions
from formatkit.write import TableWriteConfig
from formatkit.write.partition import compile_transform

__all__ = ["Distribution", "distribute", "distribution_of", "shuffle_settings"]

_MODE = "write.distribution-mode"
_FANOUT = "write.spark.fanout.enabled"
_ADVISORY = "write.spark.advisory-partition-size-bytes"
_SPARK_ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_MODES = ("none", "hash", "range")
_MICROS_PER_DAY = 86_400_000_000
_MICROS_PER_HOUR = _MICROS_PER_DAY // 24
# How many bytes of rows, as Spark shuffles them, become one byte of a file: a guess, which AQE corrects where it can.
_RATIO = 2


@dataclass(frozen=True)
class Distribution:
    """How rows are given to tasks.

    Attributes:
        mode: ``none``: as they come. ``hash``: rows of a partition of the table to one task. ``range``: by the values
            of partitions and of the sort order.
        fanout: Whether a task may get rows of its partitions mixed; else they are sorted by partition.
        advisory_bytes: About how much a task gets.
    """

    mode: str
    fanout: bool
    advisory_bytes: int


def distribution_of(config: TableWriteConfig, options: WriteOptions) -> Distribution:
    """What the options say, else the table, else what Iceberg does: sorted tables by range, partitioned ones by hash.

    Raises:
        ConfigurationError: A property of the table has a value that is none.
    """
    mode = options.distribution or config.properties.get(_MODE)
    if mode is None:
        mode = "range" if not config.sort_order.is_unsorted else "hash" if config.spec.fields else "none"
    if mode.lower() not in _MODES:
        raise ConfigurationError(f"the table's property {_MODE} is {mode!r}; it must be none, hash or range")
    fanout = options.fanout
    if fanout is None:
        fanout = config.properties.get(_FANOUT, "false").lower() == "true"
    advisory = options.advisory_bytes or _number(config.properties.get(_ADVISORY)) or config.target_file_bytes * _RATIO
    return Distribution(mode.lower(), fanout, advisory)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigurationError(f"the table's property {_ADVISORY} is {text!r}; it must be a whole number of bytes")
    return int(text)


def distribute(df: DataFrame, config: TableWriteConfig, chosen: Distribution, *, adaptive: bool) -> DataFrame:
    """The same rows with the same columns, given to tasks and sorted within them as asked.

    Args:
        df: Rows with the names and types of the table.
        config: Has the partition spec and the sort order.
        chosen: How.
        adaptive: Whether Spark chooses the number of partitions while it runs (`spark.sql.adaptive.enabled`).
    """
    keys = _Keys(df, config)
    partitions = [keys.partition(field.transform, field.source_id) for field in config.spec.fields]
    orders = [
        (keys.partition(field.transform, field.source_id), field.direction, field.null_order)
        for field in config.sort_order.fields
    ]
    by = [name for name in partitions if name is not None]
    sorts = [_ascending(name) for name in by]
    sorts += [_sorted(name, direction, nulls) for name, direction, nulls in orders if name is not None]
    rows = keys.with_columns()
    if chosen.mode == "hash" and by:
        columns = [f.col(quoted(name)) for name in by]
        # Spark cuts partitions that got too large, and joins those that are small, if it is told in this way.
        rows = _rebalanced(rows, columns) if adaptive else rows.repartition(*columns)
    elif chosen.mode == "range" and sorts:
        rows = rows.repartitionByRange(*sorts)
    if sorts and not chosen.fanout:
        # Rows of one partition after the other need memory for one of them only.
        rows = rows.sortWithinPartitions(*sorts)
    return rows.select(*(f.col(quoted(name)) for name in df.columns))


def _rebalanced(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    spark = rows.sparkSession
    if is_since(spark, 4):
        return rows.hint("rebalance", *columns)
    # The method of 3.5 takes no columns; what it calls takes their expressions.
    java_rows: Any = rows._jdf  # noqa: SLF001
    java_columns: list[Any] = [column._jc for column in columns]  # noqa: SLF001
    given = scala_seq(spark.sparkContext._jvm, [column.expr() for column in java_columns])  # noqa: SLF001
    return DataFrame(java_rows.hint("rebalance", given), spark)


def _ascending(name: str) -> Column:
    return f.col(quoted(name)).asc_nulls_first()


def _sorted(name: str, direction: SortDirection, nulls: NullOrder) -> Column:
    column = f.col(quoted(name))
    first = nulls == NullOrder.NULLS_FIRST
    if direction == SortDirection.ASC:
        return column.asc_nulls_first() if first else column.asc_nulls_last()
    return column.desc_nulls_first() if first else column.desc_nulls_last()


class _Keys:
    """Columns by which rows are distributed: those of the data, and new ones for values that transforms make."""

    def __init__(self, df: DataFrame, config: TableWriteConfig) -> None:
        self._df = df
        self._schema = config.schema
        self._names: dict[tuple[str, int], str | None] = {}
        self._made: dict[str, Column] = {}

    def partition(self, transform: Transform[Any, Any], source_id: int) -> str | None:
        """The name of a column that is equal where the transformed values are; None if that is everywhere."""
        key = (str(transform), source_id)
        if key not in self._names:
            self._names[key] = self._named(transform, source_id)
        return self._names[key]

    def with_columns(self) -> DataFrame:
        if not self._made:
            return self._df
        return self._df.select("*", *(column.alias(name) for name, column in self._made.items()))

    def _named(self, transform: Transform[Any, Any], source_id: int) -> str | None:
        positions, field = field_path(self._schema, source_id)
        path = _names(self._schema, positions)
        if isinstance(transform, VoidTransform) or not _has(self._df.schema, path):
            return None
        if isinstance(transform, IdentityTransform) and len(path) == 1:
            return path[0]
        column = f.col(quoted(path[0]))
        for name in path[1:]:
            column = column.getField(name)
        name = f"_formatkit_{len(self._made)}"
        while name in self._df.columns:
            name = f"_{name}"
        self._made[name] = transformed(column, transform, field.field_type)
        return name


def _names(schema: Schema, positions: Sequence[int]) -> tuple[str, ...]:
    names: list[str] = []
    kind: IcebergType = schema.as_struct()
    for position in positions:
        child = cast("StructType", kind).fields[position]
        names.append(child.name)
        kind = child.field_type
    return tuple(names)


def _has(schema: st.StructType, path: tuple[str, ...]) -> bool:
    kind: st.DataType = schema
    for name in path:
        if not isinstance(kind, st.StructType) or name not in kind.names:
            return False
        kind = kind[name].dataType
    return True


def transformed(column: Column, transform: Transform[Any, Any], source: IcebergType) -> Column:
    """A column in which rows are equal, and in the same order, exactly where their partition values are."""
    made: Column | None = None
    match transform:
        case IdentityTransform():
            made = column
        case YearTransform() | MonthTransform() | DayTransform() | HourTransform():
            made = _calendar(column, transform, source)
        case TruncateTransform():
            made = _truncated(column, transform.width, source)
    return _in_arrow(column, transform, source) if made is None else made


def _calendar(column: Column, transform: Transform[Any, Any], source: IcebergType) -> Column:
    if isinstance(source, DateType | TimestampType | TimestampNanoType):
        date, hour = column.cast("date"), f.hour(column)
        day = f.unix_date(date)
    else:
        # Partitions are in UTC, whatever zone the session has.
        micros = f.unix_micros(column)
        day = _divided(micros, _MICROS_PER_DAY).cast("int")
        date = f.date_from_unix_date(day)
        hour = _divided(f.pmod(micros, f.lit(_MICROS_PER_DAY)), _MICROS_PER_HOUR)
    match transform:
        case YearTransform():
            return f.year(date)
        case MonthTransform():
            return f.year(date) * 12 + f.month(date)
        case DayTransform():
            return day
    return day.cast("bigint") * 24 + hour


def _divided(number: Column, by: int) -> Column:
    """Whole numbers, rounded down; a division of doubles would round moments that are far away."""
    return f.call_function("div", number - f.pmod(number, f.lit(by)), f.lit(by))


def _truncated(column: Column, width: int, source: IcebergType) -> Column | None:
    match source:
        case IntegerType() | LongType():
            number = column.cast("decimal(20,0)")
            return number - f.pmod(number, f.lit(width).cast("decimal(20,0)"))
        case StringType() | BinaryType():
            return f.substring(column, 1, width)
    return None


def _in_arrow(column: Column, transform: Transform[Any, Any], source: IcebergType) -> Column:
    """What Spark has no function for, such as Iceberg's hash, computed by the functions that place rows in files."""
    arrow_udf = getattr(f, "arrow_udf", None)
    if arrow_udf is None:
        message = f"rows cannot be distributed by {transform} before Spark 4.1; ask for distribution-mode none"
        raise UnsupportedError(message)
    bucket = isinstance(transform, BucketTransform)
    result = st.IntegerType() if bucket else spark_schema(Schema(NestedField(1, "v", source))).fields[0].dataType
    compute = compile_transform(transform, source)
    convert = from_spark(Schema(NestedField(1, "v", source)))

    def values(given: Any) -> Any:
        return compute(convert(pa.RecordBatch.from_arrays([given], names=["v"])).column(0))

    # Spark finds out by these what kind of function it is; annotations above would be text here.
    values.__annotations__ = {"given": pa.Array, "return": pa.Array}
    made: Column = arrow_udf(values, result)(column)
    return made


class _Settings:
    """Settings of a session that several writes at a time want to be different for a while."""

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._before: dict[tuple[int, str], tuple[str | None, int]] = {}

    def set(self, spark: SparkSession, name: str, value: str) -> None:
        with self._lock:
            before, users = self._before.get((id(spark), name), (spark.conf.get(name, None), 0))
            self._before[id(spark), name] = before, users + 1
            spark.conf.set(name, value)

    def restore(self, spark: SparkSession, name: str) -> None:
        with self._lock:
            before, users = self._before.pop((id(spark), name))
            if users > 1:
                self._before[id(spark), name] = before, users - 1
            elif before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, before)


_settings = _Settings()


@contextmanager
def shuffle_settings(spark: SparkSession, chosen: Distribution, configuration: Mapping[str, str]) -> Iterator[None]:
    """While it is open, Spark makes shuffled partitions of the advisory size; other writes of the session share it."""
    if chosen.mode == "none" or configuration.get("spark.sql.adaptive.enabled", "true").lower() != "true":
        yield
        return
    _settings.set(spark, _SPARK_ADVISORY, f"{chosen.advisory_bytes}b")
    try:
        yield
    finally:
        _settings.restore(spark, _SPARK_ADVISORY)
