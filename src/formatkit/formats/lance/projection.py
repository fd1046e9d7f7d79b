"""From the columns that are asked for to what Lance decodes for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, NestedField, StructType, UnknownType

from formatkit.contract.metadata_columns import POS
from formatkit.errors import ColumnNotFoundError

__all__ = ["Decoded", "decoded_columns"]

Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What a read returns.

    Attributes:
        paths: The columns to decode, in Lance's notation.
        leaves: The numbers of the leaves below them, in the file's order.
        leaf_count: How many leaves the file has.
        schema: The columns asked for, as a part of the file's schema: structs and lists pruned, maps whole.
        stored: Whether each of these columns is decoded; the others can only be null.
    """

    paths: list[str]
    leaves: list[int]
    leaf_count: int
    schema: Schema
    stored: tuple[bool, ...]

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of all columns, given one of those that are stored."""
        if all(self.stored):
            return batch
        found = iter(batch.columns)
        columns = [next(found) if stored else pa.nulls(batch.num_rows) for stored in self.stored]
        return pa.RecordBatch.from_arrays(columns, names=[field.name for field in self.schema.fields])


def decoded_columns(arrow: pa.Schema, schema: Schema, projection: Schema) -> Decoded:
    """Find the columns of `projection`, a part of the file's schema, by their names."""
    wanted = [field for field in projection.fields if field.field_id != POS.field_id]
    paths: list[Path] = []
    pruned = []
    for field in wanted:
        found = _named(schema.fields, field)
        if not isinstance(found.field_type, UnknownType):
            found, parts = _prune(found, field, arrow.field(found.name).type)
            paths += [(found.name, *part) for part in parts]
        pruned.append(found)
    numbered = list(_leaves(arrow))
    return Decoded(
        paths=[".".join(f"`{name.replace('`', '``')}`" for name in path) for path in paths],
        leaves=[i for i, leaf in enumerate(numbered) if any(leaf[: len(path)] == path for path in paths)],
        leaf_count=len(numbered),
        schema=Schema(*pruned),
        stored=tuple(not isinstance(field.field_type, UnknownType) for field in pruned),
    )


def _prune(found: NestedField, wanted: NestedField, arrow: Any) -> tuple[NestedField, list[Path]]:
    """The field with what is decoded of it, and the paths below it; an empty path stands for all of it."""
    match found.field_type, wanted.field_type:
        case StructType(), StructType(fields=fields):
            pairs = [(_named(found.field_type.fields, child), child) for child in fields]
            known = [pair for pair in pairs if not isinstance(pair[0].field_type, UnknownType)]
            if not known:
                return found, [()]
            children, paths = [], []
            for child, child_wanted in known:
                pruned, below = _prune(child, child_wanted, arrow.field(child.name).type)
                children.append(pruned)
                paths += [(child.name, *path) for path in below]
            if len(children) == arrow.num_fields and all(len(path) == 1 for path in paths):
                return found, [()]
            return found.model_copy(update={"field_type": StructType(*children)}), paths
        case ListType() as listed, ListType() as listed_wanted if pa.types.is_list(arrow):
            element, paths = _prune(listed.element_field, listed_wanted.element_field, arrow.value_type)
            if paths == [()]:
                return found, [()]
            kind = ListType(listed.element_id, element.field_type, listed.element_required)
            return found.model_copy(update={"field_type": kind}), [(arrow.value_field.name, *path) for path in paths]
    return found, [()]


def _leaves(schema: pa.Schema) -> Iterator[Path]:
    for field in schema:
        yield from _leaves_of(field, ())


def _leaves_of(field: Any, above: Path) -> Iterator[Path]:
    path, found = (*above, field.name), field.type
    if pa.types.is_struct(found):
        for i in range(found.num_fields):
            yield from _leaves_of(found.field(i), path)
    elif pa.types.is_map(found):
        yield from _leaves_of(found.key_field, path)
        yield from _leaves_of(found.item_field, path)
    elif pa.types.is_list(found) or pa.types.is_large_list(found):
        yield from _leaves_of(found.value_field, path)
    else:
        yield path


def _named(fields: Sequence[NestedField], wanted: NestedField) -> NestedField:
    for field in fields:
        if field.name == wanted.name:
            return field
    raise ColumnNotFoundError(wanted.name, (field.name for field in fields))
