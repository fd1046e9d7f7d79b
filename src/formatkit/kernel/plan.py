"""Decides, once per file and without reading a row, how a file is turned into what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, PrimitiveType

from formatkit.contract.batch import InjectedColumn
from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import (
    DELETED,
    FILE,
    LAST_UPDATED,
    METADATA_COLUMNS,
    PARTITION_ID,
    POS,
    ROW_ID,
    SPEC_ID,
)
from formatkit.errors import IllegalPromotionError
from formatkit.kernel.deletes import RowDeletes
from formatkit.kernel.names import column_paths
from formatkit.kernel.predicates import leaves, path_of
from formatkit.kernel.projection import Fields, prune, widen
from formatkit.kernel.request import FileRequest
from formatkit.kernel.resolve import ResolvedFile, resolve
from formatkit.kernel.translate import split, translate

__all__ = ["FilePlan", "plan"]

_METADATA_IDS = {PARTITION_ID} | {field.field_id for field in METADATA_COLUMNS.values()}


@dataclass(frozen=True, kw_only=True)
class FilePlan:
    """How one file is read.

    Attributes:
        location: The file.
        projection: What the reader is asked for, in terms of the file.
        predicate: Which rows the reader is asked for.
        deletes: Which rows are deleted; None if it does not matter.
        marked: The columns of a batch once deleted rows are gone: the projection, and `_deleted` if they are kept.
        computed: Columns that are added to the batches, or whose nulls are filled.
        source: The columns of a batch after that.
        late_predicate: What of the predicate needs computed columns, in terms of `source`.
        constants: Values of columns that the file lacks, by id.
        output: What is returned.
        target: The output, if a reader that can evolve may return it right away; else None.
    """

    location: str
    projection: Schema
    predicate: BooleanExpression
    deletes: RowDeletes[Any] | None
    marked: Schema
    computed: tuple[InjectedColumn, ...]
    source: Schema
    late_predicate: BooleanExpression
    constants: Mapping[int, Any]
    output: Schema
    target: Schema | None

    @property
    def is_empty(self) -> bool:
        """Whether no row of the file can match, so that it need not be read."""
        return self.predicate is AlwaysFalse() or self.late_predicate is AlwaysFalse()

    @property
    def marks_deleted(self) -> bool:
        """Whether deleted rows are kept, and the column `_deleted` tells them."""
        return self.marked is not self.projection

    @property
    def reshaping(self) -> Literal["project", "evolve"] | None:
        """How batches of `source` become batches of the output, if they are not the same."""
        if same_columns(self.source.fields, self.output.fields):
            return None
        by_id = {field.field_id: field for field in self.source.fields}
        picked = tuple(by_id[field.field_id] for field in self.output.fields if field.field_id in by_id)
        return "project" if same_columns(picked, self.output.fields) else "evolve"

    @property
    def steps(self) -> tuple[str, ...]:
        """What is done to each batch once the residual is applied, in words."""
        computed = ", ".join(column.field.name for column in self.computed)
        return (
            *self._delete_steps(),
            *((f"inject {computed}",) if computed else ()),
            *(("filter computed columns",) if self.late_predicate is not AlwaysTrue() else ()),
            *((self.reshaping,) if self.reshaping else ()),
        )

    def _delete_steps(self) -> tuple[str, ...]:
        if self.deletes is None:
            return ()
        verb = "mark" if self.marks_deleted else "delete"
        kinds = (("position", self.deletes.positions.size), ("equality", self.deletes.equality))
        return tuple(f"{verb} by {kind}" for kind, any_ in kinds if any_)


def plan(file_schema: Schema, unreadable: Mapping[int, str], request: FileRequest) -> FilePlan:
    """Plan the read of a file from its own schema.

    Raises:
        SchemaResolutionError: The file cannot be read as the table's schema asks (ids, promotions, required fields).
        UnsupportedError: A column that is needed has a type that cannot be read.
    """
    paths = list({leaf.term.ref().field.field_id: path_of(leaf) for leaf in leaves(request.predicate)}.values())
    needed = {field.field_id for field in request.schema.fields} | {path[0].field_id for path in paths}
    deletes = request.deletes if request.deletes and request.heeds_deletes else None
    keys = [path for each in (deletes.equality if deletes else ()) for path in column_paths(each.schema)]
    wanted = widen(
        tuple(field for field in request.schema.fields if field.field_id not in _METADATA_IDS),
        [path for path in (*paths, *keys) if path[0].field_id not in _METADATA_IDS],
    )
    file = resolve(
        file_schema,
        wanted if request.table_schema is None else request.table_schema.fields,
        location=request.location,
        unreadable=unreadable,
        name_mapping=request.name_mapping,
        missing_ids=request.missing_ids,
    )
    lineage = _lineage(file, request, needed)
    constants = {**request.partition_constants, **_metadata_constants(request), **lineage.constants}
    replaced = frozenset(request.partition_constants) if request.prefer_partition_constants else frozenset()
    stored = prune(file, (*wanted, *lineage.stored), constants, replaced)
    counts_rows = POS.field_id in needed or lineage.counts_rows or (deletes is not None and deletes.positions.size > 0)
    projection = _schema(file.schema, (*stored, *((POS,) if counts_rows else ())))
    marks = (DELETED,) if deletes is not None and DELETED.field_id in needed else ()
    marked = _schema(projection, (*projection.fields, *marks))
    source = _schema(marked, (*marked.fields, *lineage.appended))
    late = {POS.field_id, DELETED.field_id} | {column.field.field_id for column in lineage.computed}
    predicate, late_predicate = split(translate(request.predicate, source, constants), late)
    return FilePlan(
        location=request.location,
        projection=projection,
        predicate=predicate,
        deletes=deletes,
        marked=marked,
        computed=lineage.computed,
        source=source,
        late_predicate=late_predicate,
        constants=constants,
        output=request.schema,
        target=_target(request, needed) if deletes is None else None,
    )


def _schema(known: Schema, fields: Fields) -> Schema:
    """A schema of the fields. Making one is slow, so a known one that has just these fields is used."""
    return known if same_columns(fields, known.fields) else Schema(*fields)


def _metadata_constants(request: FileRequest) -> dict[int, Any]:
    return {
        FILE.field_id: request.location,
        SPEC_ID.field_id: request.spec_id,
        PARTITION_ID: request.partition,
        DELETED.field_id: False,
    }


@dataclass(frozen=True)
class _Lineage:
    """How the row lineage columns come about.

    Attributes:
        stored: Those that are read from the file.
        computed: Those that are appended, or whose nulls are filled.
        appended: The fields of the appended ones.
        constants: Those that have one value in the whole file.
    """

    stored: Fields
    computed: tuple[InjectedColumn, ...]
    appended: Fields
    constants: Mapping[int, Any]

    @property
    def counts_rows(self) -> bool:
        """Whether the position of each row is needed."""
        return any(column.plus == POS.field_id for column in self.computed)


def _lineage(file: ResolvedFile, request: FileRequest, needed: set[int]) -> _Lineage:
    asked = [field for field in (ROW_ID, LAST_UPDATED) if field.field_id in needed]
    ids = {field.field_id for field in asked}
    stored = {field.field_id: field for field in file.schema.fields if field.field_id in ids}
    if request.first_row_id is None:
        if not request.returns_stored_lineage:
            # Without a first row id they cannot be told from those of another table's rows.
            stored = {}
        absent = {field_id: None for field_id in ids if field_id not in stored}
        return _Lineage(tuple(field for field in asked if field.field_id in stored), (), (), absent)
    computed: list[InjectedColumn] = []
    constants: dict[int, Any] = {}
    for field in asked:
        column = stored.get(field.field_id)
        if column is not None and not isinstance(column.field_type, LongType):
            message = f"column {field.name!r} is {field.field_type} but {column.field_type} in {file.location}"
            raise IllegalPromotionError(message, location=file.location)
        if field is ROW_ID:
            computed.append(InjectedColumn(field=column or field, value=request.first_row_id, plus=POS.field_id))
        elif column is None:
            constants[field.field_id] = request.sequence_number
        elif request.sequence_number is not None:
            computed.append(InjectedColumn(field=column, value=request.sequence_number))
    return _Lineage(
        stored=tuple(field for field in asked if field.field_id in stored),
        computed=tuple(computed),
        appended=tuple(column.field for column in computed if column.field.field_id not in stored),
        constants=constants,
    )


def _target(request: FileRequest, needed: set[int]) -> Schema | None:
    """The output, if it needs nothing but the file, its defaults and its promotions."""
    if needed & _METADATA_IDS:
        return None
    inside = {path[-1].field_id for path in column_paths(request.schema)}
    filtered = {leaf.term.ref().field.field_id for leaf in leaves(request.predicate)}
    return request.schema if filtered <= inside and inside.isdisjoint(request.partition_constants) else None


def same_columns(left: Fields, right: Fields) -> bool:
    """Whether batches of the one are batches of the other: ids, names, types and nullability agree at every level."""
    return len(left) == len(right) and all(map(_same_column, left, right))


def _same_column(left: NestedField, right: NestedField) -> bool:
    if left is right:
        return True
    if (left.field_id, left.name, left.required) != (right.field_id, right.name, right.required):
        return False
    if isinstance(left.field_type, PrimitiveType):
        return left.field_type == right.field_type
    return type(left.field_type) is type(right.field_type) and same_columns(
        child_fields(left.field_type), child_fields(right.field_type)
    )
