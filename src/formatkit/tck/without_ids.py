"""Any format as one whose files do not tell ids.

Few formats can be told to store no ids, but each can be asked to read files as if they held none, because columns are
asked for by their names anyway. What is stored instead are wrong ids, so that a reader that goes by them is found out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import count
from typing import Generic, TypeVar

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.contract import (
    ByteSink,
    Capability,
    FormatFile,
    FormatFileWriter,
    FormatPlugin,
    FormatWriter,
    WriteOptions,
)
from formatkit.tck.wrapping import WrappedFile, WrappedFormat

__all__ = ["renumbered", "without_ids"]

B = TypeVar("B")


def without_ids(plugin: FormatPlugin[B], hidden: Collection[int] | None = None) -> FormatPlugin[B]:
    """A plugin that keeps ids of its files to itself: all of them, or those that are hidden."""
    return _FormatWithoutIds(plugin, hidden)


class _FormatWithoutIds(WrappedFormat[B]):
    def __init__(self, plugin: FormatPlugin[B], hidden: Collection[int] | None) -> None:
        super().__init__(plugin, lambda file: _FileWithoutIds(file, hidden), without=[Capability.FIELD_IDS])
        self._hidden = hidden

    def writer(self) -> FormatWriter[B]:
        return _Mixing(super().writer(), self._hidden)


class _Mixing(Generic[B]):
    """A writer that gives the hidden ids to other columns than those that they belong to."""

    def __init__(self, writer: FormatWriter[B], hidden: Collection[int] | None) -> None:
        self._writer = writer
        self._hidden = hidden

    def open(self, sink: ByteSink, options: WriteOptions) -> FormatFileWriter[B]:
        ids = [each for each in sorted(options.schema.field_ids) if self._hidden is None or each in self._hidden]
        mixed = dict(zip(ids, [*ids[1:], *ids[:1]], strict=True))
        return self._writer.open(sink, replace(options, schema=renumbered(options.schema, mixed)))


class _FileWithoutIds(WrappedFile[B]):
    def __init__(self, file: FormatFile[B], hidden: Collection[int] | None) -> None:
        super().__init__(file)
        nobody = count(min([0, *file.schema.field_ids]) - 1, -1)
        self._ids = {
            field_id: next(nobody) if hidden is None or field_id in hidden else field_id
            for field_id in sorted(file.schema.field_ids)
        }

    @property
    def schema(self) -> Schema:
        return renumbered(self.file.schema, self._ids)

    @property
    def unreadable(self) -> Mapping[int, str]:
        return {self._ids[field_id]: reason for field_id, reason in self.file.unreadable.items()}


def renumbered(schema: Schema, ids: Mapping[int, int]) -> Schema:
    """The schema with other ids; fields that `ids` lacks keep theirs."""
    return Schema(*(_renumber(field, ids) for field in schema.fields))


def _renumber(field: NestedField, ids: Mapping[int, int]) -> NestedField:
    field_id = ids.get(field.field_id, field.field_id)
    return NestedField(field_id, field.name, _renumber_type(field.field_type, ids), required=field.required)


def _renumber_type(outer: IcebergType, ids: Mapping[int, int]) -> IcebergType:
    match outer:
        case StructType():
            return StructType(*(_renumber(field, ids) for field in outer.fields))
        case ListType():
            element = _renumber(outer.element_field, ids)
            return ListType(element.field_id, element.field_type, element.required)
        case MapType():
            key, value = _renumber(outer.key_field, ids), _renumber(outer.value_field, ids)
            return MapType(key.field_id, key.field_type, value.field_id, value.field_type, value.required)
    return outer
