"""Variant columns: struct columns of metadata and value, whatever order and form of binary they come in."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from formatkit.batches.arrow.forms import as_type, build_struct, child_of, no_form_of, without_encoding
from formatkit.batches.arrow.types import ArrowType, Column, arrow_type
from formatkit.contract.variant import Variant, VariantType
from formatkit.errors import InvalidDataError

__all__ = ["as_variant", "has_variant_parts", "variant_array", "variants"]

_FORM = arrow_type(VariantType())
_PARTS = ("metadata", "value")


def has_variant_parts(arrow: ArrowType) -> bool:
    """Whether a type is a struct of metadata and value and nothing else."""
    return pa.types.is_struct(arrow) and sorted(arrow.field(i).name for i in range(arrow.num_fields)) == list(_PARTS)


def as_variant(column: Column, name: str) -> Column:
    """The column in canonical form.

    Raises:
        InvalidDataError: The column is no struct of metadata and value, or lacks one of them in a row.
    """
    column = without_encoding(column)
    if not has_variant_parts(column.type):
        raise no_form_of(column.type, _FORM, name)
    parts = [child_of(column, column.type.get_field_index(part)) for part in _PARTS]
    for part, child in zip(_PARTS, parts, strict=True):
        if child.null_count > column.null_count:
            message = f"column {name!r} holds a variant without {part}; a variant null has both, and a null row neither"
            raise InvalidDataError(message)
    # Below a null row there is something, since the parts are not nullable.
    return build_struct(_FORM, [as_type(child, pa.binary(), name).fill_null(b"") for child in parts], column)


def variant_array(values: Sequence[Variant | None]) -> Column:
    """A canonical column of these values."""
    rows = [None if value is None else {"metadata": value.metadata, "value": value.value} for value in values]
    return pa.array(rows, _FORM)


def variants(column: Column) -> list[Variant | None]:
    """The values of a canonical column."""
    parts = (column.field(part).to_pylist() for part in _PARTS)
    rows = zip(*parts, column.is_valid().to_pylist(), strict=True)
    return [Variant(metadata, value) if valid else None for metadata, value, valid in rows]
