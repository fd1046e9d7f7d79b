"""What the columns of a new row are, compiled into functions from the rows that a clause sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import Reference
from pyiceberg.expressions.literals import Literal
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.constants import ConstantColumn
from formatkit.contract.fields import child_fields, field_path
from formatkit.errors import ConfigurationError, FormatkitError, InvalidDataError, UnsupportedError
from formatkit.kernel import find_column
from formatkit.kernel.literals import LiteralError, bracket_literal, comparable
from formatkit.kernel.names import dotted
from formatkit.kernel.parsing import parse_value
from formatkit.write.matching import Matcher

__all__ = ["RowsOf", "SideColumn", "compile_rows"]

RowsOf = Callable[[pa.RecordBatch], pa.RecordBatch]
_ColumnOf = Callable[[pa.RecordBatch], Any]


@dataclass(frozen=True)
class SideColumn:
    """A column of the source or of the table, for those who need no text to name it."""

    side: str
    path: tuple[str, ...]

    def find_in(self, sides: Schema) -> _ColumnOf:
        fields, positions = sides.fields, list[int]()
        for name in (self.side, *self.path):
            positions.append([field.name for field in fields].index(name))
            fields = child_fields(fields[positions[-1]].field_type)
        return column_finder(tuple(positions))


def compile_rows(
    sides: Schema, target: Schema, assigned: Mapping[str, Any], *, case_sensitive: bool, what: str
) -> RowsOf:
    """A function from a batch of what a clause sees to new rows of the table.

    Args:
        sides: What the clause sees.
        target: The table's columns. Those that are not assigned take their write default, else null.
        assigned: By column of the table, what it becomes: a `SideColumn`, text that is a column or a literal, or a
            Python value.
        case_sensitive: Whether case matters in names.
        what: The argument that is read, for messages.

    Raises:
        ConfigurationError, InvalidPredicateError: A value is neither a column nor a literal of the column's type.
        ColumnNotFoundError, AmbiguousColumnError: A name fits no column, or several.
        SchemaResolutionError, MissingRequiredFieldError: A column does not fit, or a required one gets nothing.
    """
    columns: dict[str, _ColumnOf] = {}
    for name, value in assigned.items():
        field = _assigned_field(target, name, case_sensitive=case_sensitive)
        if field.name in columns:
            raise ConfigurationError(f"{what} has several values for column {field.name!r}")
        columns[field.name] = _column(sides, field, value, case_sensitive=case_sensitive, what=what)
    matcher = Matcher(target, ArrowBatch())

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        found = {name: column(batch) for name, column in columns.items()}
        return matcher.match(pa.RecordBatch.from_arrays(list(found.values()), list(found)))

    rows(ArrowBatch().concat(sides, []))  # what does not fit is refused before anything is read
    return rows


def _assigned_field(target: Schema, name: str, *, case_sensitive: bool) -> NestedField:
    path = find_column(target, name, case_sensitive=case_sensitive)
    if len(path) > 1:
        raise UnsupportedError(f"column {dotted(path)!r} is a part of column {path[0].name!r}; set that as a whole")
    return path[0]


def _column(sides: Schema, field: NestedField, value: Any, *, case_sensitive: bool, what: str) -> _ColumnOf:
    if isinstance(value, SideColumn):
        return value.find_in(sides)
    given = parse_value(value) if isinstance(value, str) else value
    if isinstance(given, Reference):
        path = find_column(sides, given.name, case_sensitive=case_sensitive)
        if len(path) == 1 or any(isinstance(parent.field_type, ListType | MapType) for parent in path[:-1]):
            raise ConfigurationError(f"{what}: {given.name!r} is no column that {field.name!r} can become")
        return column_finder(field_path(sides, path[-1].field_id)[0])
    try:
        internal = _internal(field.field_type, given) if isinstance(given, Literal) else given
        constant = ConstantColumn(field.field_type, internal)
    except (FormatkitError, LiteralError) as error:
        message = f"{what}: column {field.name!r} is {field.field_type} and cannot become {value!r}: {error}"
        raise ConfigurationError(message) from error
    return lambda batch: constant.of(batch.num_rows)


def _internal(kind: IcebergType, literal: Literal[Any]) -> Any:
    if not comparable(kind):
        raise InvalidDataError("the column's type has no literals; give a Python value")
    bracket = bracket_literal(kind, literal)
    if not bracket.exact:
        raise InvalidDataError("the column's type has no such value")
    return bracket.floor
