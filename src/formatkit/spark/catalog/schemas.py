"""Columns and partitions of CREATE TABLE and ALTER TABLE in the words of Iceberg, and the other way round."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyspark.sql.types as st
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
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
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
)
from pyspark.sql import SparkSession

from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark.java import java_array, java_class

__all__ = ["iceberg_schema", "iceberg_type", "java_transforms", "partition_spec", "quoted"]

_EXPRESSIONS = "org.apache.spark.sql.connector.expressions"
_FLAT_TYPES: dict[type[st.DataType], IcebergType] = {
    st.BooleanType: BooleanType(),
    # As in Iceberg for Java: there is nothing shorter.
    st.ByteType: IntegerType(),
    st.ShortType: IntegerType(),
    st.IntegerType: IntegerType(),
    st.LongType: LongType(),
    st.FloatType: FloatType(),
    st.DoubleType: DoubleType(),
    st.DateType: DateType(),
    st.TimestampType: TimestamptzType(),
    st.TimestampNTZType: TimestampType(),
    st.StringType: StringType(),
    st.CharType: StringType(),
    st.VarcharType: StringType(),
    st.BinaryType: BinaryType(),
    st.VariantType: VariantType(),
    st.NullType: UnknownType(),
}
_TIME_UNITS: dict[str, Transform[Any, Any]] = {
    "year": YearTransform(),
    "month": MonthTransform(),
    "day": DayTransform(),
    "hour": HourTransform(),
}


def iceberg_schema(java_schema: Any) -> Schema:
    """The columns that Spark wants, with ids in the order of the specification: fields of a level before deeper ones.

    Raises:
        UnsupportedError: Iceberg has no type for a column.
    """
    return Schema(*_fields(st.StructType.fromJson(json.loads(java_schema.json())), itertools.count(1), ()))


def iceberg_type(spark_type: st.DataType, column: str) -> IcebergType:
    """The type of Iceberg that a column of Spark gets; the ids inside are for the catalog to give."""
    return _type(spark_type, itertools.count(1), (column,))


def _fields(struct: st.StructType, ids: Iterator[int], parents: tuple[str, ...]) -> list[NestedField]:
    numbered = [(next(ids), field) for field in struct]
    return [
        NestedField(
            field_id,
            field.name,
            _type(field.dataType, ids, (*parents, field.name)),
            required=not field.nullable,
            doc=(field.metadata or {}).get("comment"),
        )
        for field_id, field in numbered
    ]


def _type(kind: st.DataType, ids: Iterator[int], path: tuple[str, ...]) -> IcebergType:
    match kind:
        case st.StructType():
            return StructType(*_fields(kind, ids, path))
        case st.ArrayType():
            element_id = next(ids)
            element = _type(kind.elementType, ids, (*path, "element"))
            return ListType(element_id, element, element_required=not kind.containsNull)
        case st.MapType():
            key_id, value_id = next(ids), next(ids)
            key = _type(kind.keyType, ids, (*path, "key"))
            value = _type(kind.valueType, ids, (*path, "value"))
            return MapType(key_id, key, value_id, value, value_required=not kind.valueContainsNull)
        case st.DecimalType():
            return DecimalType(kind.precision, kind.scale)
    if type(kind).__name__ == "TimeType":
        return TimeType()
    flat = _FLAT_TYPES.get(type(kind))
    if flat is None:
        raise UnsupportedError(
            f"column {'.'.join(path)!r} is {kind.simpleString()}, for which Iceberg has no type; cast it to another one"
        )
    return flat


def partition_spec(schema: Schema, transforms: Sequence[Any]) -> PartitionSpec:
    """What PARTITIONED BY says.

    Args:
        schema: The columns of the new table.
        transforms: Spark's transforms.

    Raises:
        UnsupportedError: Iceberg has no such transform.
        ConfigurationError: A column is missing, or a number.
    """
    ids = itertools.count(PARTITION_FIELD_ID_START)
    fields = [PartitionField(*_partition_field(schema, each, next(ids))) for each in transforms]
    return PartitionSpec(*fields)


def _partition_field(schema: Schema, java_transform: Any, field_id: int) -> tuple[int, int, Transform[Any, Any], str]:
    text = java_transform.toString()
    references = list(java_transform.references())
    if len(references) != 1:
        raise UnsupportedError(f"a partition of Iceberg is made of one column, and {text} is made of {len(references)}")
    column = ".".join(references[0].fieldNames())
    try:
        source = schema.find_field(column)
    except ValueError as error:
        known = ", ".join(field.name for field in schema.fields)
        raise ConfigurationError(f"PARTITIONED BY {text}: there is no column {column!r}; there are {known}") from error
    transform, ending = _transform(java_transform, text)
    if not transform.can_transform(source.field_type):
        raise ConfigurationError(f"PARTITIONED BY {text}: {column!r} is {source.field_type}, which has no such parts")
    return source.field_id, field_id, transform, column.replace(".", "_") + ending if ending else column


def _transform(java_transform: Any, text: str) -> tuple[Transform[Any, Any], str]:
    name = java_transform.name().lower()
    if name == "identity":
        return IdentityTransform(), ""
    unit = name.removesuffix("s")
    if unit in _TIME_UNITS:
        return _TIME_UNITS[unit], f"_{unit}"
    if name == "bucket":
        return BucketTransform(_number(java_transform, text)), "_bucket"
    if name == "truncate":
        return TruncateTransform(_number(java_transform, text)), "_trunc"
    raise UnsupportedError(
        f"PARTITIONED BY {text}: Iceberg has columns as they are, bucket(n, c), truncate(w, c), years(c), months(c), "
        "days(c) and hours(c)"
    )


def _number(java_transform: Any, text: str) -> int:
    arguments = list(java_transform.arguments())
    found = [each.value() for each in arguments if each.getClass().getSimpleName() == "LiteralValue"]
    if len(found) != 1 or type(found[0]) is not int or found[0] < 1:
        raise ConfigurationError(f"PARTITIONED BY {text}: one positive number is needed, as in bucket(16, id)")
    return found[0]


def quoted(path: str | Sequence[str]) -> str:
    """A name as Spark's parser reads it back."""
    parts = [path] if isinstance(path, str) else path
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def java_transforms(spark: SparkSession, schema: Schema, spec: PartitionSpec) -> Any:
    """The partitions of a table as Spark's transforms; those of columns that are gone are left out."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    expressions = java_class(jvm, f"{_EXPRESSIONS}.Expressions")
    strings = java_class(jvm, "java.lang.String")
    made = []
    for field in spec.fields:
        path = _path(schema, field.source_id)
        if path is None:
            continue
        column = quoted(path)
        match field.transform:
            case IdentityTransform():
                made.append(expressions.identity(column))
            case BucketTransform():
                made.append(expressions.bucket(field.transform.num_buckets, java_array(spark, strings, [column])))
            case TruncateTransform():
                arguments = [expressions.literal(field.transform.width), expressions.column(column)]
                kind = java_class(jvm, f"{_EXPRESSIONS}.Expression")
                made.append(expressions.apply("truncate", java_array(spark, kind, arguments)))
            case YearTransform():
                made.append(expressions.years(column))
            case MonthTransform():
                made.append(expressions.months(column))
            case DayTransform():
                made.append(expressions.days(column))
            case HourTransform():
                made.append(expressions.hours(column))
            case VoidTransform():
                continue
            case _:
                arguments = [expressions.column(column)]
                kind = java_class(jvm, f"{_EXPRESSIONS}.Expression")
                made.append(expressions.apply(str(field.transform), java_array(spark, kind, arguments)))
    return java_array(spark, java_class(jvm, f"{_EXPRESSIONS}.Transform"), made)


def _path(schema: Schema, field_id: int) -> list[str] | None:
    """The names on the way to a field."""

    def search(fields: Sequence[NestedField], before: list[str]) -> list[str] | None:
        for field in fields:
            here = [*before, field.name]
            if field.field_id == field_id:
                return here
            if isinstance(field.field_type, StructType):
                found = search(field.field_type.fields, here)
                if found is not None:
                    return found
        return None

    return search(schema.fields, [])
