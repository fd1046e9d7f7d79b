"""A Spark schema against that of a table: by name, with the casts that Spark's own INSERT makes, or by evolving."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyspark.sql.types as st
from pyiceberg.schema import Schema
from pyiceberg.table import Table
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
)
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from formatkit.errors import AmbiguousColumnError, ConfigurationError, SchemaResolutionError, UnsupportedError
from formatkit.registry import default_registry
from formatkit.spark.session import quoted
from formatkit.spark.types import as_arrow, spark_schema
from formatkit.spark.writing.incoming import from_spark
from formatkit.write.commit import enable_version3
from formatkit.write.matching import Matcher

__all__ = ["Assignment", "assignment_of", "check_columns", "check_fit", "evolve", "fitted", "iceberg_schema"]

_CASE = "spark.sql.caseSensitive"
_POLICY = "spark.sql.storeAssignmentPolicy"
_ANSI = "spark.sql.ansi.enabled"
_FLAT_TYPES: dict[type[st.DataType], IcebergType] = {
    st.BooleanType: BooleanType(),
    st.ByteType: IntegerType(),
    st.ShortType: IntegerType(),
    st.IntegerType: IntegerType(),
    st.LongType: LongType(),
    st.FloatType: FloatType(),
    st.DoubleType: DoubleType(),
    st.DateType: DateType(),
    st.TimestampNTZType: TimestampType(),
    st.TimestampType: TimestamptzType(),
    st.StringType: StringType(),
    st.CharType: StringType(),
    st.VarcharType: StringType(),
    st.BinaryType: BinaryType(),
}
_NUMBERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.FloatType, st.DoubleType)
# As many digits as Spark says that numbers have, and how many of them are behind the point.
_DIGITS: dict[type[st.DataType], tuple[int, int]] = {
    st.ByteType: (3, 0),
    st.ShortType: (5, 0),
    st.IntegerType: (10, 0),
    st.LongType: (20, 0),
}
_MOMENTS = (st.DateType, st.TimestampType, st.TimestampNTZType)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """How values of a DataFrame are stored in columns of other types, as the session says for INSERT.

    Attributes:
        case_sensitive: Whether case matters in names (`spark.sql.caseSensitive`).
        policy: ``ANSI``: casts that fail at run time where a value does not fit. ``STRICT``: only those that always
            succeed (`spark.sql.storeAssignmentPolicy`).
        casts_fail: Whether Spark's casts fail where a value does not fit (`spark.sql.ansi.enabled`).
        check_nullability: Whether a column that may be null is refused for a required one.
        check_ordering: Whether columns have to come in the table's order.
    """

    case_sensitive: bool = False
    policy: str = "ANSI"
    casts_fail: bool = True
    check_nullability: bool = False
    check_ordering: bool = False


def assignment_of(
    configuration: Mapping[str, str],
    *,
    case_sensitive: bool | None = None,
    check_nullability: bool = False,
    check_ordering: bool = False,
) -> Assignment:
    """What a session's configuration says, where nothing else was asked for.

    Raises:
        ConfigurationError: The policy is LEGACY, under which Spark stores null in place of what it cannot cast.
    """
    policy = configuration.get(_POLICY, "ANSI").upper()
    if policy not in ("ANSI", "STRICT"):
        message = (
            f"{_POLICY} is {policy}, which stores values that do not fit as null or as another value; set it to ANSI "
            "or STRICT, or cast the columns yourself"
        )
        raise ConfigurationError(message)
    if case_sensitive is None:
        case_sensitive = configuration.get(_CASE, "false").lower() == "true"
    return Assignment(
        case_sensitive=case_sensitive,
        policy=policy,
        casts_fail=configuration.get(_ANSI, "true").lower() == "true",
        check_nullability=check_nullability or policy == "STRICT",
        check_ordering=check_ordering,
    )


def fitted(df: DataFrame, schema: Schema, assignment: Assignment, *, partial: bool = False) -> DataFrame:
    """The DataFrame with the table's names and types; columns that it lacks are left to the writers.

    Args:
        df: The data.
        schema: The table's.
        assignment: How values are stored in columns of other types.
        partial: Whether the data may have columns that the table lacks, which stay as they are behind the others, and
            may lack any.

    Raises:
        SchemaResolutionError, MissingRequiredFieldError, AmbiguousColumnError: It cannot be written to the table.
    """
    wanted = _wanted(schema)
    found = df.schema.fields
    others: list[Column] = []
    if partial:
        spelling = str if assignment.case_sensitive else str.lower
        known = {spelling(field.name) for field in wanted.fields}
        others = [f.col(quoted(field.name)) for field in found if spelling(field.name) not in known]
        found = [field for field in found if spelling(field.name) in known]
    columns = []
    for source, target in _pairs(found, wanted.fields, assignment, ()):
        _check_null(source.nullable, target.nullable, assignment, target.name)
        column = f.col(quoted(source.name))
        cast = _assigned(column, source.dataType, target.dataType, assignment, (target.name,))
        columns.append((column if cast is None else cast).alias(target.name))
    made = df.select(*columns, *others)
    if not partial:
        check_fit(made.schema, schema)
    return made


def check_columns(found: st.StructType, schema: Schema, assignment: Assignment) -> None:
    """Raise what `fitted` raises for names, order and nullability of columns; their types are not looked at."""
    for source, target in _pairs(found.fields, _wanted(schema).fields, assignment, ()):
        _check_null(source.nullable, target.nullable, assignment, target.name)


def check_fit(found: st.StructType, schema: Schema) -> None:
    """Raise what the writers would raise for batches of these columns, before anything is run."""
    arrow = as_arrow(found)
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in arrow], schema=arrow)
    Matcher(schema, default_registry().batches(pa.RecordBatch)).match(from_spark(schema)(empty))


def _wanted(schema: Schema) -> st.StructType:
    # Microseconds, which are all that Spark has, fit into nanoseconds.
    return spark_schema(schema, "floor")


def _pairs(
    found: Sequence[st.StructField], wanted: Sequence[st.StructField], assignment: Assignment, path: tuple[str, ...]
) -> list[tuple[st.StructField, st.StructField]]:
    """Fields of the data and of the table that belong together, in the order of the table."""
    by_name: dict[str, st.StructField] = {}
    for source in found:
        key = source.name if assignment.case_sensitive else source.name.lower()
        if key in by_name:
            names = [by_name[key].name, source.name]
            message = f"the data has several columns {_dotted(path, source.name)!r}: {', '.join(names)}"
            raise AmbiguousColumnError(message, candidates=names)
        by_name[key] = source
    pairs = []
    for target in wanted:
        other = by_name.pop(target.name if assignment.case_sensitive else target.name.lower(), None)
        if other is not None:
            pairs.append((other, target))
    for rest in by_name.values():
        known = ", ".join(repr(each.name) for each in wanted) or "no columns"
        message = (
            f"column {_dotted(path, rest.name)!r} of the data is not in the table, which has {known} there; drop it, "
            "or add it to the table by merge_schema=True"
        )
        raise SchemaResolutionError(message)
    if assignment.check_ordering and [source for source, _ in pairs] != list(found):
        order = ", ".join(target.name for _, target in pairs)
        message = f"the columns of the data are in another order than the table's ({order}), and check-ordering is on"
        raise SchemaResolutionError(message)
    return pairs


def _check_null(nullable: bool, allowed: bool, assignment: Assignment, name: str) -> None:
    if assignment.check_nullability and nullable and not allowed:
        message = (
            f"column {name!r} may be null in the data, and is required in the table; with the policy STRICT and with "
            "check-nullability this is refused, whatever its values are"
        )
        raise SchemaResolutionError(message)


def _assigned(
    column: Column, found: st.DataType, wanted: st.DataType, assignment: Assignment, path: tuple[str, ...]
) -> Column | None:
    """The column in the wanted type; None if it is in that type already."""
    match found, wanted:
        case st.StructType(), st.StructType():
            return _struct(column, found, wanted, assignment, path)
        case st.ArrayType(), st.ArrayType():
            _check_null(found.containsNull, wanted.containsNull, assignment, _dotted(path, "element"))
            return _array(column, found, wanted, assignment, path)
        case st.MapType(), st.MapType():
            _check_null(found.valueContainsNull, wanted.valueContainsNull, assignment, _dotted(path, "value"))
            return _map(column, found, wanted, assignment, path)
    if _same(found, wanted):
        return None
    if not (can_ansi_assign(found, wanted) if assignment.policy == "ANSI" else can_up_cast(found, wanted)):
        message = (
            f"column {_dotted(path)!r} of the data is {found.simpleString()}, which {_POLICY}={assignment.policy} does "
            f"not store as {wanted.simpleString()}; cast it before writing"
        )
        raise SchemaResolutionError(message)
    if assignment.casts_fail or isinstance(found, st.NullType):
        return column.cast(wanted)
    tried = column.try_cast(wanted)
    text = f"column {_dotted(path)!r}: a value of type {found.simpleString()} does not fit {wanted.simpleString()}"
    wrong = f.raise_error(f.lit(text)).cast(wanted)
    return f.when(column.isNotNull() & tried.isNull(), wrong).otherwise(tried)


def _struct(
    column: Column, found: st.StructType, wanted: st.StructType, assignment: Assignment, path: tuple[str, ...]
) -> Column | None:
    pairs = _pairs(found.fields, wanted.fields, assignment, path)
    fields, changed = [], False
    for source, target in pairs:
        below = (*path, target.name)
        _check_null(source.nullable, target.nullable, assignment, _dotted(below))
        child = column.getField(source.name)
        cast = _assigned(child, source.dataType, target.dataType, assignment, below)
        changed = changed or cast is not None or source.name != target.name
        fields.append((child if cast is None else cast).alias(target.name))
    if not changed:
        return None
    return f.when(column.isNotNull(), f.struct(*fields))


def _array(
    column: Column, found: st.ArrayType, wanted: st.ArrayType, assignment: Assignment, path: tuple[str, ...]
) -> Column | None:
    def element(each: Column) -> Column | None:
        return _assigned(each, found.elementType, wanted.elementType, assignment, (*path, "element"))

    if element(f.lit(None).cast(found.elementType)) is None:
        return None
    return f.transform(column, element)  # type: ignore[arg-type]


def _map(
    column: Column, found: st.MapType, wanted: st.MapType, assignment: Assignment, path: tuple[str, ...]
) -> Column | None:
    def key(each: Column) -> Column | None:
        return _assigned(each, found.keyType, wanted.keyType, assignment, (*path, "key"))

    def value(each: Column) -> Column | None:
        return _assigned(each, found.valueType, wanted.valueType, assignment, (*path, "value"))

    keys = key(f.lit(None).cast(found.keyType)) is not None
    values = value(f.lit(None).cast(found.valueType)) is not None
    if keys:
        column = f.transform_keys(column, lambda each, _: key(each))  # type: ignore[arg-type, return-value]
    if values:
        column = f.transform_values(column, lambda _, each: value(each))  # type: ignore[arg-type, return-value]
    return column if keys or values else None


def _same(found: st.DataType, wanted: st.DataType) -> bool:
    if isinstance(found, st.DecimalType) and isinstance(wanted, st.DecimalType):
        return (found.precision, found.scale) == (wanted.precision, wanted.scale)
    texts = (st.StringType, st.CharType, st.VarcharType)
    return type(found) is type(wanted) or (isinstance(found, texts) and isinstance(wanted, texts))


def can_ansi_assign(found: st.DataType, wanted: st.DataType) -> bool:
    """Whether Spark's policy ANSI stores values of one flat type in a column of another."""
    if _same(found, wanted) or isinstance(found, st.NullType):
        return True
    numbers = (*_NUMBERS, st.DecimalType)
    if isinstance(found, numbers) and isinstance(wanted, numbers):
        return True
    if isinstance(found, _MOMENTS) and isinstance(wanted, _MOMENTS):
        return True
    return isinstance(wanted, st.StringType) and isinstance(found, st.AtomicType)


def can_up_cast(found: st.DataType, wanted: st.DataType) -> bool:
    """Whether Spark's policy STRICT stores values of one flat type in a column of another: none can be lost."""
    if _same(found, wanted) or isinstance(found, st.NullType):
        return True
    if isinstance(found, _NUMBERS) and isinstance(wanted, _NUMBERS):
        return _NUMBERS.index(type(found)) <= _NUMBERS.index(type(wanted))
    if isinstance(wanted, st.DecimalType):
        digits = _digits(found)
        return digits is not None and _fits(digits, (wanted.precision, wanted.scale))
    if isinstance(found, st.DecimalType) and type(wanted) in _DIGITS:
        return found.scale == 0 and found.precision < _DIGITS[type(wanted)][0]
    if isinstance(found, _MOMENTS) and isinstance(wanted, _MOMENTS):
        return not isinstance(wanted, st.DateType)
    if {type(found), type(wanted)} == {st.LongType, st.TimestampType}:
        return True  # seconds since 1970, to Spark
    return isinstance(wanted, st.StringType) and isinstance(found, st.AtomicType)


def _digits(kind: st.DataType) -> tuple[int, int] | None:
    return (kind.precision, kind.scale) if isinstance(kind, st.DecimalType) else _DIGITS.get(type(kind))


def _fits(digits: tuple[int, int], into: tuple[int, int]) -> bool:
    return digits[0] - digits[1] <= into[0] - into[1] and digits[1] <= into[1]


def iceberg_schema(found: st.StructType) -> Schema:
    """The columns as Iceberg has them, all of them optional, with comments as descriptions and ids from 1 on.

    Raises:
        UnsupportedError: Iceberg has no type for a column.
    """
    numbers = itertools.count(1)
    return Schema(*_iceberg_fields(found.fields, numbers, ()))


def _iceberg_fields(
    fields: Sequence[st.StructField], numbers: Iterator[int], path: tuple[str, ...]
) -> list[NestedField]:
    made = []
    for field in fields:
        doc = (field.metadata or {}).get("comment")
        kind = _iceberg_type(field.dataType, numbers, (*path, field.name))
        made.append(NestedField(next(numbers), field.name, kind, required=False, doc=doc))
    return made


def _iceberg_type(kind: st.DataType, numbers: Iterator[int], path: tuple[str, ...]) -> IcebergType:
    match kind:
        case st.StructType():
            return StructType(*_iceberg_fields(kind.fields, numbers, path))
        case st.ArrayType():
            element = _iceberg_type(kind.elementType, numbers, (*path, "element"))
            return ListType(next(numbers), element, element_required=False)
        case st.MapType():
            key = _iceberg_type(kind.keyType, numbers, (*path, "key"))
            value = _iceberg_type(kind.valueType, numbers, (*path, "value"))
            return MapType(next(numbers), key, next(numbers), value, value_required=False)
        case st.DecimalType():
            return DecimalType(kind.precision, kind.scale)
    time = getattr(st, "TimeType", None)
    if time is not None and isinstance(kind, time):
        return TimeType()
    flat = _FLAT_TYPES.get(type(kind))
    if flat is None:
        message = f"column {_dotted(path)!r} is {kind.simpleString()}, for which a new column has no type; cast it"
        raise UnsupportedError(message)
    return flat


def evolve(table: Table, found: st.StructType, *, case_sensitive: bool) -> bool:
    """Add the columns that the data has and the table lacks, and widen types as Iceberg allows; returns whether any.

    Raises:
        UnsupportedError: Iceberg has no type for a column.
    """
    schema = table.schema()
    changes = list(_changes(_wanted(schema).fields, found.fields, (), case_sensitive, schema))
    if not changes:
        return False
    if table.metadata.format_version >= 3:
        enable_version3()
    with table.update_schema(case_sensitive=True) as update:
        for path, kind, is_new in changes:
            if is_new:
                update.add_column(path, kind)
            else:
                update.update_column(path, kind)
    return True


def _changes(
    wanted: Sequence[st.StructField],
    found: Sequence[st.StructField],
    path: tuple[str, ...],
    case_sensitive: bool,
    schema: Schema,
) -> Iterator[tuple[tuple[str, ...], IcebergType, bool]]:
    present = {each.name if case_sensitive else each.name.lower(): each for each in wanted}
    for field in found:
        target = present.get(field.name if case_sensitive else field.name.lower())
        if target is None:
            below = (*path, field.name)
            yield below, _iceberg_type(field.dataType, itertools.count(1), below), True
        else:
            yield from _widened(target.dataType, field.dataType, (*path, target.name), case_sensitive, schema)


def _widened(
    wanted: st.DataType, found: st.DataType, path: tuple[str, ...], case_sensitive: bool, schema: Schema
) -> Iterator[tuple[tuple[str, ...], IcebergType, bool]]:
    match wanted, found:
        case st.StructType(), st.StructType():
            yield from _changes(wanted.fields, found.fields, path, case_sensitive, schema)
        case st.ArrayType(), st.ArrayType():
            yield from _widened(wanted.elementType, found.elementType, (*path, "element"), case_sensitive, schema)
        case st.MapType(), st.MapType():
            yield from _widened(wanted.valueType, found.valueType, (*path, "value"), case_sensitive, schema)
        case (st.IntegerType(), st.LongType()) | (st.FloatType(), st.DoubleType()):
            yield path, _FLAT_TYPES[type(found)], False
        case st.DecimalType(), st.DecimalType() if found.scale == wanted.scale and found.precision > wanted.precision:
            yield path, DecimalType(found.precision, found.scale), False


def _dotted(path: tuple[str, ...], *names: str) -> str:
    return ".".join((*path, *names))
