"""Finding a column of a batch by its field id, through structs."""

from __future__ import annotations

import polars as pl
from pyiceberg.types import NestedField

from formatkit.batches.polars.forms import Place, no_form_of

__all__ = ["place_of"]


def place_of(path: tuple[int, ...], field: NestedField, found: pl.Schema) -> Place:
    """Where the column at this path is in batches of a layout: null wherever one of its parents is null."""
    top, *below = path
    place = Place.top(top, field.name, found.dtypes()[top])
    for position in below:
        if not isinstance(place.dtype, pl.Struct):
            raise no_form_of(place, pl.Struct([]))
        place = place.child(position, field.name)
    return place
