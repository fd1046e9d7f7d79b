"""Any format as one whose files say less about ids than they do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count
from typing import Any, Generic, TypeVar

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.contract import Capability, FormatFile, FormatPlugin, FormatReader, OpenOptions, ReadOptions, ReadResult
from formatkit.contract.format import FormatWriter
from formatkit.contract.storage import ByteSource

__all__ = ["WithoutIds"]

B = TypeVar("B")


class WithoutIds(Generic[B]):
    """A plugin that keeps ids of its files to itself, all of them or some.

    Few formats can be told to store no ids, but each can be asked to read files as if they held none: columns are asked
    for by their names anyway.
    """

    def __init__(self, plugin: FormatPlugin[B], hidden: Collection[int] | None = None) -> None:
        self._plugin = plugin
        self._hidden = hidden
        self.file_format = plugin.file_format
        self.batch_type = plugin.batch_type
        self.capabilities = plugin.capabilities - {Capability.FIELD_IDS}
        self.extensions = plugin.extensions
        self.magic = plugin.magic

    def reader(self) -> FormatReader[B]:
        return _Reader(self._plugin.reader(), self._hidden)

    def writer(self) -> FormatWriter[B]:
        return self._plugin.writer()


class _Reader(Generic[B]):
    def __init__(self, reader: FormatReader[B], hidden: Collection[int] | None) -> None:
        self._reader = reader
        self._hidden = hidden

    def open(self, source: ByteSource, options: OpenOptions) -> FormatFile[B]:
        return _File(self._reader.open(source, options), self._hidden)


class _File(Generic[B]):
    def __init__(self, file: FormatFile[B], hidden: Collection[int] | None) -> None:
        self._file = file
        nameless = count(-1, -1)
        known = [field_id for field_id in file.schema.field_ids if hidden is not None and field_id not in hidden]
        self._ids = {
            field_id: field_id if field_id in known else next(nameless) for field_id in sorted(file.schema.field_ids)
        }
        self.schema = Schema(*(_renumber(field, self._ids) for field in file.schema.fields))

    @property
    def unreadable(self) -> Mapping[int, str]:
        return {self._ids[field_id]: reason for field_id, reason in self._file.unreadable.items()}

    @property
    def row_count(self) -> int | None:
        return self._file.row_count

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return self._file.split_offsets

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._file.metadata

    def read(self, options: ReadOptions) -> ReadResult[B]:
        return self._file.read(options)

    def describe(self) -> Mapping[str, Any]:
        return self._file.describe()

    def close(self) -> None:
        self._file.close()


def _renumber(field: NestedField, ids: Mapping[int, int]) -> NestedField:
    return NestedField(ids[field.field_id], field.name, _renumber_type(field.field_type, ids), required=field.required)


def _renumber_type(outer: IcebergType, ids: Mapping[int, int]) -> IcebergType:
    match outer:
        case StructType():
            return StructType(*(_renumber(field, ids) for field in outer.fields))
        case ListType():
            element = _renumber_type(outer.element_type, ids)
            return ListType(ids[outer.element_id], element, outer.element_required)
        case MapType():
            key, value = _renumber_type(outer.key_type, ids), _renumber_type(outer.value_type, ids)
            return MapType(ids[outer.key_id], key, ids[outer.value_id], value, outer.value_required)
    return outer
