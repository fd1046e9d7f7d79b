"""Field ids in the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyiceberg.types import IcebergType, NestedField

from formatkit.contract import Capability
from formatkit.contract.fields import child_fields
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import NESTED, ODD_NAMES, PRIMITIVES
from formatkit.tck.kits import FormatKit


@check("W2", "R1", "X44", layer=Layer.FORMAT, when=Capability.FIELD_IDS, twin="ids_that_are_not_stored_are_negative")
def ids_are_stored_at_every_level(kit: FormatKit[Any]) -> None:
    """The ids of columns, struct fields, list elements, map keys and map values are those of the schema."""
    for data in (PRIMITIVES, NESTED, ODD_NAMES):
        stored = kit.write(data.schema, data.rows)
        with kit.opened(stored.data) as file:
            found = [field.field_id for field in _fields(file.schema.as_struct())]
        expected = [field.field_id for field in _fields(data.schema.as_struct())]
        expect.equal(found, expected, f"ids in a file of {data.name}")


@check("R1", "X70", layer=Layer.FORMAT, unless=Capability.FIELD_IDS)
def ids_that_are_not_stored_are_negative(kit: FormatKit[Any]) -> None:
    """Where a file stores no ids, each field has a negative one of its own."""
    stored = kit.write(NESTED.schema, NESTED.rows)
    with kit.opened(stored.data) as file:
        found = [field.field_id for field in _fields(file.schema.as_struct())]
    expect.that(all(number < 0 for number in found), f"ids of a file that stores none: {found}")
    expect.equal(len(set(found)), len(found), f"number of different ids among {found}")


def _fields(kind: IcebergType) -> Iterator[NestedField]:
    for field in child_fields(kind):
        yield field
        yield from _fields(field.field_type)
