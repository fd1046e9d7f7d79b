"""Columns of a file that Iceberg has no type for: whoever asks for one is told, and never gets nulls instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from formatkit.contract.fields import child_fields
from formatkit.errors import UnsupportedError
from formatkit.kernel.names import column_paths, dotted

__all__ = ["refuse_unreadable"]


def refuse_unreadable(location: str, schema: Schema, unreadable: Mapping[int, str], asked: set[int]) -> None:
    """Raise `UnsupportedError` if columns are asked for that cannot be read.

    Args:
        location: The file.
        schema: Its columns.
        unreadable: Why some of them cannot be read, by id.
        asked: The ids of what is asked for.
    """
    refused = [path for path in column_paths(schema) if path[-1].field_id in unreadable and path[-1].field_id in asked]
    if not refused:
        return
    reasons = "; ".join(
        f"column {dotted(path)!r} of {location} cannot be read: {unreadable[path[-1].field_id]}" for path in refused
    )
    others = ", ".join(repr(name) for name in _readable(schema.fields, unreadable))
    advice = f"select other columns: {others}" if others else "it has no column that can"
    raise UnsupportedError(f"{reasons}; {advice}", location=location)


def _readable(fields: Iterable[NestedField], unreadable: Mapping[int, str], parents: str = "") -> Iterator[str]:
    """The names of columns of which everything can be read, and of such parts of structs."""
    for field in fields:
        name = parents + field.name
        if all(path[-1].field_id not in unreadable for path in column_paths(Schema(field))):
            yield name
        elif isinstance(field.field_type, StructType):
            yield from _readable(child_fields(field.field_type), unreadable, f"{name}.")
