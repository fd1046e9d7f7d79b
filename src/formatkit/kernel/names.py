"""Finding columns by the names that people type."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.contract.fields import child_fields
from formatkit.errors import AmbiguousColumnError, ColumnNotFoundError

__all__ = ["ColumnNames", "column_paths", "dotted", "find_column", "path_to"]

Path = tuple[NestedField, ...]


def column_paths(schema: Schema) -> Iterator[Path]:
    """Every field of the schema with the fields above it, outermost first; parents come before their children."""
    yield from _paths((), schema.fields)


def _paths(parents: Path, fields: tuple[NestedField, ...]) -> Iterator[Path]:
    for field in fields:
        path = (*parents, field)
        yield path
        yield from _paths(path, child_fields(field.field_type))


def dotted(path: Path) -> str:
    """The name of a column as people write it."""
    return ".".join(field.name for field in path)


class ColumnNames:
    """The columns of a schema by the names that people type; made once where several are looked up."""

    def __init__(self, schema: Schema, *, case_sensitive: bool = True) -> None:
        self._paths = {dotted(path): path for path in column_paths(schema)}
        self._spelling: Callable[[str], str] = str if case_sensitive else str.lower
        self._fitting: dict[str, list[str]] = {}
        for name in self._paths:
            self._fitting.setdefault(self._spelling(name), []).append(name)

    def find(self, name: str) -> Path:
        """The path to the column that a dotted name means.

        A dot may be part of a column's own name. Raises `ColumnNotFoundError` if nothing fits, `AmbiguousColumnError`
        if several columns do, an exact match among them included: which one was meant must not depend on luck.
        """
        fitting = self._fitting.get(self._spelling(name), [])
        if not fitting:
            raise ColumnNotFoundError(name, self._paths)
        if len(fitting) > 1:
            raise AmbiguousColumnError(name, fitting)
        return self._paths[fitting[0]]


def find_column(schema: Schema, name: str, *, case_sensitive: bool = True) -> Path:
    """The path to the column that one name means, as `ColumnNames` finds it."""
    return ColumnNames(schema, case_sensitive=case_sensitive).find(name)


def path_to(schema: Schema, field_id: int) -> Path | None:
    """The path to a field, or None if the schema lacks it."""
    return next((path for path in column_paths(schema) if path[-1].field_id == field_id), None)
