"""Arrow IPC with one thing wrong in its writer: how the faults in the modules beside this one are made."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from formatkit.contract import ByteSink, Capability, WriteOptions, WriteResult
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.tck import Subject
from formatkit.tck.naive import Row
from formatkit.tck.rows import from_arrow, to_arrow

__all__ = [
    "Writer",
    "changing_batches",
    "changing_rows",
    "changing_values",
    "retyped",
    "subject",
    "undeclared",
    "written_by",
]

ChangeValue = Callable[[IcebergType, Any], Any]


class Writer:
    """One file, written by another writer; subclasses do one thing otherwise."""

    def __init__(self, plugin: Any, sink: ByteSink, options: WriteOptions) -> None:
        self.sink = sink
        self.options = options
        self.inner: Any = plugin.writer().open(sink, options)

    def write(self, batch: Any) -> None:
        self.inner.write(batch)

    def bytes_written(self) -> int:
        return int(self.inner.bytes_written())

    def close(self) -> WriteResult | None:
        result: WriteResult | None = self.inner.close()
        return result

    def abort(self) -> None:
        self.inner.abort()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()
        else:
            self.abort()


def subject(plugin: Any = None, **facts: Any) -> Subject[Any]:
    """A plugin, Arrow's if none is given, with whatever is special about it."""
    chosen: Any = plugin or ArrowFormat()
    return Subject.of(chosen, **facts)


def written_by(writer: type[Writer], plugin: Any = None) -> Subject[Any]:
    """A plugin, Arrow's if none is given, whose files such a writer writes."""
    good = plugin or ArrowFormat()

    class Faulty(type(good)):  # type: ignore[misc]
        def writer(self) -> Any:
            return self

        def open(self, sink: ByteSink, options: WriteOptions) -> Writer:
            return writer(good, sink, options)

    return subject(Faulty())


def undeclared(capability: Capability, plugin: Any = None) -> Subject[Any]:
    """A plugin that can do something, does it, and does not say so."""
    good = type(plugin or ArrowFormat())
    faulty = type("Faulty", (good,), {"capabilities": good.capabilities - {capability}})
    return subject(faulty())


def changing_batches(change: Callable[[Schema, pa.RecordBatch], pa.RecordBatch]) -> Subject[Any]:
    """Writes other batches than it is given."""

    class Changing(Writer):
        def write(self, batch: Any) -> None:
            super().write(change(self.options.schema, batch))

    return written_by(Changing)


def changing_rows(change: Callable[[Schema, list[Row]], list[Row]]) -> Subject[Any]:
    """Writes other rows than it is given."""

    def changed(schema: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = change(schema, from_arrow(schema, batch))
        table = to_arrow(schema, rows, ids=False).combine_chunks()
        return table.to_batches()[0] if rows else batch.slice(0, 0)

    return changing_batches(changed)


def changing_values(change: ChangeValue, *, only: Collection[type[IcebergType]] = ()) -> Subject[Any]:
    """Writes other values than it is given, at every level; `only` says of which types."""

    def of(kind: IcebergType, value: Any) -> Any:
        return change(kind, _below(kind, value)) if not only or type(kind) in only else _below(kind, value)

    def _below(kind: IcebergType, value: Any) -> Any:
        if value is None or isinstance(kind, PrimitiveType):
            return value
        match kind:
            case StructType():
                return {field.field_id: of(field.field_type, value[field.field_id]) for field in kind.fields}
            case ListType():
                return [of(kind.element_type, element) for element in value]
            case MapType():
                return [(of(kind.key_type, key), of(kind.value_type, item)) for key, item in value]
        return value

    return changing_rows(
        lambda schema, rows: [
            {field.field_id: of(field.field_type, row[field.field_id]) for field in schema.fields} for row in rows
        ]
    )


def retyped(change: Callable[[NestedField], NestedField], plugin: Any = None) -> type[Writer]:
    """A writer that stores another schema than it is given; `change` is applied to fields at every level."""

    class Retyping(Writer):
        def __init__(self, good: Any, sink: ByteSink, options: WriteOptions) -> None:
            fields = [_changed(field, change) for field in options.schema.fields]
            super().__init__(plugin or good, sink, replace(options, schema=Schema(*fields)))

    return Retyping


def _changed(field: NestedField, change: Callable[[NestedField], NestedField]) -> NestedField:
    match field.field_type:
        case StructType(fields=fields):
            kind: IcebergType = StructType(*(_changed(child, change) for child in fields))
        case ListType(element_field=element):
            new = _changed(element, change)
            kind = ListType(new.field_id, new.field_type, element_required=new.required)
        case MapType(key_field=key, value_field=value):
            new_key, new = _changed(key, change), _changed(value, change)
            kind = MapType(
                new_key.field_id, new_key.field_type, new.field_id, new.field_type, value_required=new.required
            )
        case kind:
            pass
    return change(NestedField(field.field_id, field.name, kind, required=field.required))
