"""Name mappings as table properties."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pyiceberg.types import StructType

from formatkit.contract.fields import child_fields

__all__ = ["mapped", "mapped_fields", "name_mapping"]


def name_mapping(fields: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The property that holds a mapping."""
    return {"schema.name-mapping.default": json.dumps(list(fields))}


def mapped(field_id: int | None, *names: str, fields: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """One field of a mapping; without an id, a column that is no field of the table."""
    known = {} if field_id is None else {"field-id": field_id}
    return {**known, "names": list(names), "fields": list(fields)}


def mapped_fields(structs: Sequence[StructType]) -> list[dict[str, Any]]:
    """The mapping that fits all the structs; a name that is one field here and another there cannot be mapped."""
    return _mapped([[*struct.fields] for struct in structs])


def _mapped(levels: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    fields = [field for level in levels for field in level]
    owners = {(field.name, field.field_id) for field in fields}
    if len({name for name, _ in owners}) < len(owners):
        raise ValueError(f"no mapping can tell these columns apart: {sorted(owners)}")
    return [
        mapped(
            field_id,
            *dict.fromkeys(field.name for field in same),
            fields=_mapped([child_fields(field.field_type) for field in same]),
        )
        for field_id in dict.fromkeys(field.field_id for field in fields)
        if (same := [field for field in fields if field.field_id == field_id])
    ]
