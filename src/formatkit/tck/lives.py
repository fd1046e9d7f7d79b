"""Hypothesis strategies for the files of tables that have lived."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import strategies as st
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType

from formatkit.contract import Capability
from formatkit.tck.naive import File
from formatkit.tck.strategies import rows

__all__ = ["files_of_any_age", "is_storable"]


def is_storable(schema: Schema, capabilities: Collection[Capability]) -> bool:
    """Whether a format with these capabilities has all types of the schema."""
    kinds = (TimestampNanoType, TimestamptzNanoType)
    return Capability.NANOSECONDS in capabilities or not any(
        isinstance(field.field_type, kinds) for field in index_by_id(schema).values()
    )


@st.composite
def files_of_any_age(draw: st.DrawFn, schemas: Sequence[Schema], capabilities: Collection[Capability]) -> list[File]:
    """Up to three files, each of one of the schemas, old ones first of all; no file where none can be stored.

    Args:
        draw: Hypothesis' hand.
        schemas: The life of the table's schema, oldest first.
        capabilities: Of the format, which may lack types.
    """
    ages = [schema for schema in schemas if is_storable(schema, capabilities)]
    if not ages:
        return []
    chosen = draw(st.lists(st.sampled_from(ages[:-1] or ages) | st.just(ages[-1]), min_size=1, max_size=3))
    return [
        File(
            schema=schema,
            rows=draw(rows(schema, min_size=draw(st.sampled_from([6, 1])))),
            first_row_id=1000 * number,
            sequence_number=1,
        )
        for number, schema in enumerate(chosen)
    ]
