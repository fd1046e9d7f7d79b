"""The commands that need no table: `formats` and `inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formatkit.cli.options import AsJson, Format

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

__all__ = ["formats", "inspect"]

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A data file: path or URI.", show_default=False)]


def formats(as_json: AsJson = False) -> None:
    """List the file formats that are installed, what each can do, and what is wrong with those that cannot load."""
    from formatkit.cli.terminal import print_json, print_table
    from formatkit.registry import default_registry

    registry = default_registry()
    loaded = [
        {
            "format": plugin.file_format,
            "batch_type": f"{plugin.batch_type.__module__.partition('.')[0]}.{plugin.batch_type.__qualname__}",
            "extensions": list(plugin.extensions),
            "capabilities": sorted(capability.value for capability in plugin.capabilities),
        }
        for plugin in registry.plugins()
    ]
    failed = [{"format": name, "error": str(error)} for name, found in registry.failures().items() for error in found]
    if as_json:
        print_json({"formats": loaded, "failures": failed})
        return
    columns = ("format", "batch type", "extensions", "capabilities")
    print_table(columns, ([_joined(value) for value in each.values()] for each in loaded))
    if failed:
        print_table(("format", "cannot be used because"), (list(each.values()) for each in failed))


def inspect(file: FileArgument, file_format: Format = None, as_json: AsJson = False) -> None:
    """Show what a data file says about itself: schema with field ids, rows, chunks, writer, metadata."""
    from formatkit.cli.terminal import console, print_json, print_table

    facts, schema = _facts(file, file_format)
    if as_json:
        print_json({**facts, "schema": schema.model_dump(mode="json")})
        return
    metadata = facts.pop("metadata")
    unreadable = facts.pop("unreadable")
    # A plugin may describe what the contract already told.
    print_table(("fact", "value"), dict(_flat(facts)).items())
    print_table(("id", "column", "type", "required", "remark"), _column_rows(schema, unreadable))
    if metadata:
        print_table(("key", "value stored in the file"), ((key, _shortened(value)) for key, value in metadata.items()))
    if any(field_id < 0 for field_id in schema.field_ids):
        console().print("A dash for an id: the file stores none, so a table needs a name mapping to read the column.")


def _facts(file: str, file_format: str | None) -> tuple[dict[str, Any], Schema]:
    import pyarrow as pa

    from formatkit.contract import OpenOptions
    from formatkit.io import open_source
    from formatkit.registry import default_registry

    registry = default_registry()
    source = open_source(file)
    try:
        size = source.size()
        name = file_format or registry.detect(file, bytes(source.read(0, min(size, 16))))
        opened = registry.plugin(name, pa.RecordBatch).reader().open(source, OpenOptions())
        try:
            facts: dict[str, Any] = {
                "location": source.location,
                "format": name,
                "size_bytes": size,
                "rows": opened.row_count,
                "split_offsets": list(opened.split_offsets),
                "details": dict(opened.describe()),
                "unreadable": {str(field_id): reason for field_id, reason in opened.unreadable.items()},
                "metadata": dict(opened.metadata),
            }
            return facts, opened.schema
        finally:
            opened.close()
    finally:
        source.close()


def _flat(facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(value)
        elif value not in ([], None):
            yield key.replace("_", " "), _shortened(_joined(value))


def _column_rows(schema: Schema, unreadable: dict[str, str]) -> Iterator[tuple[Any, ...]]:
    for depth, field in _walk(schema.fields, 0):
        stored_id = field.field_id if field.field_id >= 0 else "-"
        required = "yes" if field.required else ""
        yield stored_id, "  " * depth + field.name, _type_name(field), required, unreadable.get(str(field.field_id), "")


def _walk(fields: tuple[NestedField, ...], depth: int) -> Iterator[tuple[int, NestedField]]:
    from formatkit.contract.fields import child_fields

    for field in fields:
        yield depth, field
        yield from _walk(child_fields(field.field_type), depth + 1)


def _type_name(field: NestedField) -> str:
    return str(field.field_type).partition("<")[0]


def _joined(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _shortened(value: Any, length: int = 120) -> Any:
    return f"{value[:length]}… ({len(value)} characters)" if isinstance(value, str) and len(value) > length else value
