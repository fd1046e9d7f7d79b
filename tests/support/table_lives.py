"""Random lives of tables: rows, schemas, specs, formats and deletes change, and a list of rows beside them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from formatkit.errors import InvalidDataError
from formatkit.tck.strategies import leaf_types, predicates, rows
from formatkit.write.operations import Mode
from support.lived_tables import installed_formats
from support.modelled_table import ModelledTable, Row, new_table
from support.operated_tables import delete_by_equality

__all__ = ["Life"]

ID = 1
MODES: tuple[Mode, ...] = ("merge-on-read", "copy-on-write")
STEPS = (
    *("append",) * 3,
    *("delete",) * 4,
    *("overwrite",) * 2,
    *("upsert",) * 3,
    *("evolve schema",) * 2,
    "evolve spec",
    *("rewrite",) * 2,
    "replace all",
    "delete by equality",
)
TRANSFORMS: dict[type[IcebergType], list[Transform[Any, Any]]] = {
    LongType: [IdentityTransform(), BucketTransform(3), TruncateTransform(10)],
    IntegerType: [IdentityTransform(), BucketTransform(2)],
    StringType: [IdentityTransform(), TruncateTransform(1), BucketTransform(4)],
    DateType: [YearTransform(), DayTransform(), IdentityTransform()],
    TimestampType: [MonthTransform()],
    TimestamptzType: [DayTransform()],
    DecimalType: [IdentityTransform(), TruncateTransform(100)],
    BinaryType: [TruncateTransform(2)],
    UUIDType: [IdentityTransform(), BucketTransform(2)],
    FloatType: [IdentityTransform()],
    DoubleType: [IdentityTransform()],
}


class Life:
    """One table from its beginning: every step changes the table and the model, and both are compared."""

    def __init__(self, data: st.DataObject, directory: Path) -> None:
        self.draw: Callable[..., Any] = data.draw
        version = self.draw(st.sampled_from([1, 2, 2, 3, 3]), label="version")
        schema = self.draw(schemas())
        granularity = self.draw(st.sampled_from(["file", "partition"]))
        table = new_table(directory, schema, version=version, write_delete_granularity=granularity)
        self.model = ModelledTable(table)
        self.ids = count()
        self.names = (f"added{number}" for number in count())
        self.version = version

    @property
    def schema(self) -> Schema:
        return self.model.schema

    def live(self) -> None:
        """Do one thing after the other."""
        for number in range(self.draw(st.integers(2, 7), label="steps")):
            step = self.draw(st.sampled_from(STEPS if number else ("append", "append", "evolve spec")), label="step")
            getattr(self, step.replace(" ", "_"))()
            self.model.check(self.predicate())
            if self.model.snapshot_ids:
                self.model.check_snapshot(self.draw(st.sampled_from(self.model.snapshot_ids)))

    def append(self) -> None:
        self.model.append(self.new_rows(max_size=8), self.file_format())

    def delete(self) -> None:
        self.model.delete(self.predicate(), self.mode(), file_format=self.file_format())

    def overwrite(self) -> None:
        self.model.overwrite(self.new_rows(max_size=3), self.predicate(), self.file_format())

    def replace_all(self) -> None:
        if self.draw(st.booleans()):
            self.model.overwrite(self.new_rows(max_size=5), None, self.file_format())
        else:
            self.model.delete(AlwaysTrue(), self.mode())

    def delete_by_equality(self) -> None:
        known = [row[ID] for row in self.model.rows]
        if known and self.version > 1:
            delete_by_equality(self.model, self.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4)))

    def upsert(self) -> None:
        incoming = self.new_rows(max_size=6)
        known = [row[ID] for row in self.model.rows]
        for row in incoming:
            if known and self.draw(st.booleans()):
                row[ID] = self.draw(st.sampled_from(known))
        unchanged = [row for row in self.model.rows if row[ID] not in {row[ID] for row in incoming}]
        incoming += [dict(row) for row in unchanged[: self.draw(st.integers(0, 2))]]
        if len({row[ID] for row in incoming}) < len(incoming):
            with pytest.raises(InvalidDataError, match="same key"):
                self.model.upsert(incoming, lambda row: row[ID], self.mode())
            incoming = list({row[ID]: row for row in incoming}.values())
        self.model.upsert(incoming, lambda row: row[ID], self.mode(), file_format=self.file_format())

    def rewrite(self, **more: Any) -> None:
        options = st.fixed_dictionaries(
            {},
            optional={
                "file_format": st.just(self.file_format()),
                "where": self.predicates(),
                "target_file_size": st.sampled_from([1, 1000, 1 << 20]),
                "sort": st.sampled_from(["", " desc"]).map(self.schema.find_field(ID).name.__add__),
                "all_files": st.booleans(),
                "max_commits": st.integers(1, 3),
            },
        )
        self.model.rewrite(**self.draw(options, label="rewrite"), **more)

    def evolve_schema(self) -> None:
        sources = {field.source_id for spec in self.model.table.specs().values() for field in spec.fields}
        free = [field for field in self.schema.fields if field.field_id not in {ID, *sources}]
        widening = [field for field in free if wider(field.field_type)]
        change = self.draw(st.sampled_from(["add", "add", "drop", "rename", "move", "widen"]), label="change")
        with self.model.table.update_schema() as update:
            if change == "drop" and free:
                update.delete_column(self.draw(st.sampled_from(free)).name)
            elif change == "rename":
                update.rename_column(self.draw(st.sampled_from(self.schema.fields)).name, next(self.names))
            elif change == "move":
                update.move_first(self.draw(st.sampled_from(self.schema.fields)).name)
            elif change == "widen" and widening:
                field = self.draw(st.sampled_from(widening))
                update.update_column(field.name, wider(field.field_type))
            else:
                update.add_column(next(self.names), self.draw(column_types()))
        self.model.evolved()

    def evolve_spec(self) -> None:
        table = self.model.table
        sources = {field.source_id for field in table.spec().fields}
        choices = [
            (field.name, transform)
            for field in self.schema.fields
            if field.field_id not in sources
            for transform in TRANSFORMS.get(type(field.field_type), [])
        ]
        drop = bool(table.spec().fields) and self.draw(st.booleans(), label="drop a partition field")
        with table.update_spec() as update:
            if drop:
                update.remove_field(self.draw(st.sampled_from(table.spec().fields)).name)
            elif choices:
                name, transform = self.draw(st.sampled_from(choices), label="partition field")
                update.add_field(name, transform, f"p{next(self.ids)}")

    def new_rows(self, max_size: int) -> list[Row]:
        """Rows with ids that no row has."""
        return [{**row, ID: next(self.ids)} for row in self.draw(rows(self.schema, max_size=max_size), label="rows")]

    def file_format(self) -> str | None:
        usable = [name for name in installed_formats(self.schema) if name in ("parquet", "orc", "avro", "arrow")]
        chosen: str | None = self.draw(st.sampled_from([None, *usable]), label="format")
        return chosen

    def mode(self) -> Mode:
        mode: Mode = self.draw(st.sampled_from(MODES[1:] if self.version == 1 else MODES), label="mode")
        return mode

    def predicates(self) -> st.SearchStrategy[BooleanExpression]:
        return predicates(self.schema, favourites=[ID])

    def predicate(self) -> BooleanExpression:
        where: BooleanExpression = self.draw(self.predicates(), label="where")
        return where


def wider(kind: IcebergType) -> PrimitiveType | None:
    """The type that Iceberg lets a column become."""
    match kind:
        case IntegerType():
            return LongType()
        case FloatType():
            return DoubleType()
        case DecimalType() if kind.precision < 38:
            return DecimalType(38, kind.scale)
    return None


def column_types() -> st.SearchStrategy[IcebergType]:
    """Every flat type that all versions have, and some nested ones."""
    nested = [
        StructType(NestedField(100, "x", IntegerType()), NestedField(101, "y", StringType())),
        ListType(100, LongType(), element_required=False),
    ]
    return leaf_types(nanoseconds=False) | st.sampled_from(nested)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    others = draw(st.lists(column_types(), min_size=1, max_size=3))
    fields = [NestedField(number + 2, f"c{number}", kind) for number, kind in enumerate(others)]
    return Schema(NestedField(ID, "id", LongType(), required=True), *fields, identifier_field_ids=[ID])
