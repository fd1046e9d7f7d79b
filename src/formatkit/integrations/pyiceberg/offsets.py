"""Which columns files store with small offsets, and which with large ones.

pyiceberg hands out what Arrow reads: a column has the type that the file's writer noted, of several files the largest,
and where a file lacks the column the type that the schema declares, which is large.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types as is_type
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.types import IcebergType, NestedField, StructType

from formatkit.contract import FormatFile
from formatkit.contract.fields import child_fields
from formatkit.forks import fork_safe
from formatkit.kernel.resolve import resolve

__all__ = ["ARROW_SCHEMA", "ColumnPath", "Offsets", "as_noted", "children", "small_columns"]

ColumnPath = tuple[int, ...]
"""Ids from the top, and places of elements, keys and values, which are what they are whatever their ids."""

ARROW_SCHEMA = "ARROW:schema"
"""Where writers of Parquet note the Arrow types of their data."""


class Offsets:
    """Finds out how the files that give rows store their columns. Any thread may tell it of a file."""

    def __init__(self, name_mapping: NameMapping | None) -> None:
        self._name_mapping = name_mapping
        self._lock = fork_safe(threading.Lock())
        self._stored: dict[str, tuple[Schema, str | None]] = {}

    def note(self, location: str, file: FormatFile[Any]) -> None:
        """A file gave rows."""
        with self._lock:
            if location not in self._stored:
                self._stored[location] = file.schema, file.metadata.get(ARROW_SCHEMA)

    def small(self, locations: Iterable[str]) -> frozenset[ColumnPath]:
        """The columns that all of these files that gave rows store with small offsets."""
        with self._lock:
            stored = {location: self._stored[location] for location in locations if location in self._stored}
        found = [self._small_in(location, *each) for location, each in stored.items()]
        return frozenset.intersection(*found) if found else frozenset()

    def _small_in(self, location: str, schema: Schema, noted: str | None) -> frozenset[ColumnPath]:
        known = resolve(schema, (), location=location, unreadable={}, name_mapping=self._name_mapping).schema
        return small_columns(known, None if noted is None else _read(noted))


def small_columns(schema: Schema, arrow: pa.Schema | None) -> frozenset[ColumnPath]:
    """The columns whose offsets are small, where Arrow has the same columns in these types; without, all."""
    return frozenset(_small_below(schema.as_struct(), () if arrow is None else arrow.types, ()))


def children(kind: IcebergType, path: ColumnPath) -> list[tuple[ColumnPath, NestedField]]:
    """The fields directly below a type, with their paths."""
    fields = child_fields(kind)
    if isinstance(kind, StructType):
        return [((*path, field.field_id), field) for field in fields]
    return [((*path, place), field) for place, field in enumerate(fields)]


def as_noted(schema: pa.Schema) -> str:
    """A schema in the form in which it is noted in files."""
    return base64.b64encode(schema.serialize()).decode()


@lru_cache(maxsize=64)
def _read(noted: str) -> pa.Schema | None:
    """The schema that a writer noted; one that cannot be read says nothing."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(noted)))
    except (ValueError, OSError):
        return None


def _small_below(kind: IcebergType, arrow: Sequence[Any], path: ColumnPath) -> Iterator[ColumnPath]:
    fields = children(kind, path)
    types = arrow if len(arrow) == len(fields) else (None,) * len(fields)
    for (place, field), type_ in zip(fields, types, strict=True):
        if type_ is None or not _is_large(type_):
            yield place
        yield from _small_below(field.field_type, () if type_ is None else _types_below(type_), place)


def _types_below(kind: Any) -> list[Any]:
    if is_type.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.field(place).type for place in range(kind.num_fields)]


def _is_large(kind: Any) -> bool:
    values = kind.value_type if is_type.is_dictionary(kind) else kind
    return bool(is_type.is_large_string(values) or is_type.is_large_binary(values) or is_type.is_large_list(values))
