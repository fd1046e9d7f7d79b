"""Hypothesis strategies for the files of tables that have lived, and for what was deleted of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hypothesis import strategies as st
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import DoubleType, FloatType, PrimitiveType, StructType, TimestampNanoType, TimestamptzNanoType

from formatkit.contract import Capability
from formatkit.contract.variant import VariantType
from formatkit.tck.deletions import Deletes, DeletionVector, EqualityDeletes, PositionDeletes
from formatkit.tck.naive import File
from formatkit.tck.strategies import rows

__all__ = ["deletes_of_any_kind", "files_of_any_age", "is_storable"]


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


@st.composite
def deletes_of_any_kind(
    draw: st.DrawFn, schemas: Sequence[Schema], files: Sequence[File], capabilities: Collection[Capability]
) -> list[Deletes]:
    """Up to four delete files of a table, old and new; at most one deletion vector for each data file.

    Args:
        draw: Hypothesis' hand.
        schemas: The life of the table's schema, oldest first.
        files: The data files; deletion vectors are no older than they are.
        capabilities: Of the format, which may lack types.
    """
    if not files:
        return []
    keyed = [schema for schema in schemas if is_storable(schema, capabilities) and list(_keys(schema.as_struct()))]
    kinds = ["positions", "vector"] + (["equality"] * 2 if keyed else [])
    found: dict[object, Deletes] = {}
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=4))):
        age = draw(st.integers(1, 3))
        if kind == "equality":
            found[number] = draw(_equality_deletes(draw(st.sampled_from(keyed)), files, age))
            continue
        target = draw(st.integers(0, len(files) - 1))
        positions = draw(st.lists(st.integers(0, len(files[target].rows)), min_size=1, max_size=4))
        if kind == "vector":
            newest = max(file.sequence_number or 1 for file in files)
            found["vector", target] = DeletionVector(file=target, positions=positions, sequence_number=newest)
        else:
            pairs = [(target, position) for position in positions]
            found[number] = PositionDeletes(rows=pairs, sequence_number=age)
    return list(found.values())


@st.composite
def _equality_deletes(draw: st.DrawFn, schema: Schema, files: Sequence[File], age: int) -> EqualityDeletes:
    leaves = dict(_keys(schema.as_struct()))
    ids = tuple(draw(st.lists(st.sampled_from(sorted(leaves)), min_size=1, max_size=2, unique=True)))
    stored = Schema(*(column for column in schema.fields if column.field_id in {leaves[each] for each in ids}))
    known = [row for file in files if file.schema is schema for row in file.rows]
    some = draw(st.lists(st.sampled_from(known), max_size=2)) if known else []
    keys = [{column.field_id: row[column.field_id] for column in stored.fields} for row in some]
    keys += draw(rows(stored, min_size=0 if keys else 1))[:2]
    return EqualityDeletes(ids=ids, schema=stored, rows=keys, sequence_number=age)


def _keys(struct: StructType, top: int | None = None) -> Iterator[tuple[int, int]]:
    """The fields by which rows may be deleted, each with the column that it is in."""
    for field in struct.fields:
        column = field.field_id if top is None else top
        if isinstance(field.field_type, StructType):
            yield from _keys(field.field_type, column)
        elif isinstance(field.field_type, PrimitiveType) and not isinstance(
            field.field_type, FloatType | DoubleType | VariantType
        ):
            yield field.field_id, column
