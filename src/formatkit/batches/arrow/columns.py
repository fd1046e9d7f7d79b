"""Finding a column of a batch by its field id, through structs."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from formatkit.batches.arrow.forms import child_of, without_encoding
from formatkit.batches.arrow.types import Column
from formatkit.errors import InvalidDataError

__all__ = ["column_finder"]


def column_finder(path: tuple[int, ...]) -> Callable[[pa.RecordBatch], Column]:
    """How to get the column at this path out of a batch: null wherever one of its parents is null."""
    top, *below = path

    def find(batch: pa.RecordBatch) -> Column:
        column = batch.column(top)
        for position in below:
            column = without_encoding(column)
            if not isinstance(column, pa.StructArray):
                message = f"column {batch.schema.field(top).name!r} holds {column.type} where its schema has a struct"
                raise InvalidDataError(message)
            column = child_of(column, position)
        return column

    return find
