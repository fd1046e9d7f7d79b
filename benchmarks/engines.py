"""The peers of the comparison: each answers a scenario's question in its own language, as Arrow.

Polars and Daft filter with SQL's three-valued logic and order NaN after all numbers. They are asked the question that
the Iceberg expressions spec defines, spelled out in their language, so that only their reading of tables is compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import reduce
from importlib.metadata import version
from typing import Any

import daft
import polars as pl
import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.literals import DateLiteral, TimeLiteral
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import formatkit

__all__ = ["ENGINES", "VERSIONS", "native"]

_EPOCH = datetime(1970, 1, 1)


def native(literal: Any, iceberg_type: IcebergType) -> Any:
    """The literal as the Python object that a user of a data frame would type."""
    value = literal.value
    match iceberg_type:
        case DateType():
            return (
                (_EPOCH + timedelta(days=value)).date() if isinstance(literal, DateLiteral) else _moment(value).date()
            )
        case TimeType():
            return (_EPOCH + timedelta(microseconds=value)).time() if isinstance(literal, TimeLiteral) else value
        case TimestampType():
            return _moment(value)
        case TimestamptzType():
            return _moment(value).replace(tzinfo=UTC)
        case FloatType() | DoubleType():
            return float(value)
        case UUIDType() if isinstance(value, str):
            return literal.to(iceberg_type).value
    return value


def _moment(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else _EPOCH + timedelta(microseconds=value)


class _Translator(ABC):
    """Spells a predicate in the language of a data frame library; Polars and Daft agree on most operators."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    @abstractmethod
    def column(self, name: str) -> Any: ...

    @abstractmethod
    def literal(self, value: Any, iceberg_type: IcebergType) -> Any: ...

    @abstractmethod
    def starts_with(self, column: Any, prefix: Any) -> Any: ...

    def spell(self, predicate: BooleanExpression) -> Any:
        match predicate:
            case And():
                return self.spell(predicate.left) & self.spell(predicate.right)
            case Or():
                return self.spell(predicate.left) | self.spell(predicate.right)
            case Not():
                return ~self.spell(predicate.child).fill_null(self.literal(False, BooleanType()))
        return self._spell_leaf(predicate)

    def _spell_leaf(self, predicate: Any) -> Any:
        column = self.column(predicate.term.name)
        column_type = self._schema.find_field(predicate.term.name).field_type
        if isinstance(predicate, In | NotIn):
            among = column.is_in([native(literal, column_type) for literal in predicate.literals])
            return among if isinstance(predicate, In) else column.is_null() | ~among
        literal = getattr(predicate, "literal", None)
        value = None if literal is None else self.literal(native(literal, column_type), column_type)
        expression = _LEAVES[type(predicate)](self, column, value)
        ordered = isinstance(predicate, LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual)
        return expression & ~column.is_nan() if ordered and _floating(column_type) else expression


_LEAVES: dict[type, Callable[[_Translator, Any, Any], Any]] = {
    IsNull: lambda words, column, value: column.is_null(),
    NotNull: lambda words, column, value: ~column.is_null(),
    IsNaN: lambda words, column, value: ~column.is_null() & column.is_nan(),
    NotNaN: lambda words, column, value: column.is_null() | ~column.is_nan(),
    EqualTo: lambda words, column, value: column == value,
    NotEqualTo: lambda words, column, value: column.is_null() | (column != value),
    StartsWith: lambda words, column, value: words.starts_with(column, value),
    NotStartsWith: lambda words, column, value: column.is_null() | ~words.starts_with(column, value),
    LessThan: lambda words, column, value: column < value,
    LessThanOrEqual: lambda words, column, value: column <= value,
    GreaterThan: lambda words, column, value: column > value,
    GreaterThanOrEqual: lambda words, column, value: column >= value,
}


def _floating(iceberg_type: IcebergType) -> bool:
    return isinstance(iceberg_type, FloatType | DoubleType)


class _PolarsTranslator(_Translator):
    def column(self, name: str) -> pl.Expr:
        first, *rest = name.split(".")
        return reduce(lambda parent, child: parent.struct.field(child), rest, pl.col(first))

    def literal(self, value: Any, iceberg_type: IcebergType) -> pl.Expr:
        return pl.lit(value)

    def starts_with(self, column: Any, prefix: Any) -> pl.Expr:
        return column.str.starts_with(prefix)


class _DaftTranslator(_Translator):
    def column(self, name: str) -> Any:
        first, *rest = name.split(".")
        return reduce(lambda parent, child: parent[child], rest, daft.col(first))

    def literal(self, value: Any, iceberg_type: IcebergType) -> Any:
        literal = daft.lit(value)
        if isinstance(iceberg_type, FixedType):
            return literal.cast(daft.DataType.fixed_size_binary(len(iceberg_type)))
        return literal

    def starts_with(self, column: Any, prefix: Any) -> Any:
        return column.startswith(prefix)


def _formatkit(table: Table, where: BooleanExpression) -> pa.Table:
    return formatkit.scan(table, where=where).to_arrow()


def _pyiceberg(table: Table, where: BooleanExpression) -> pa.Table:
    return table.scan(row_filter=where).to_arrow()


def _polars(table: Table, where: BooleanExpression) -> pa.Table:
    frame = pl.scan_iceberg(table, reader_override="native")
    if where != AlwaysTrue():
        frame = frame.filter(_PolarsTranslator(table.schema()).spell(where))
    return frame.collect().to_arrow()


def _daft(table: Table, where: BooleanExpression) -> pa.Table:
    frame = daft.read_iceberg(table)
    if where != AlwaysTrue():
        frame = frame.where(_DaftTranslator(table.schema()).spell(where))
    return frame.to_arrow()


ENGINES: dict[str, Callable[[Table, BooleanExpression], pa.Table]] = {
    "formatkit": _formatkit,
    "pyiceberg": _pyiceberg,
    "Polars": _polars,
    "Daft": _daft,
}

VERSIONS = {
    package: version(package) for package in ("formatkit", "pyiceberg", "polars", "polars-iceberg", "daft", "pyarrow")
}
