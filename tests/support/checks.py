"""Checks that a scan of a real table gives the rows of the naive evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import PrimitiveType

import formatkit
from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.tck import naive
from formatkit.tck.literals import internal
from formatkit.tck.naive import File
from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.tables import make_table, write_parquet

__all__ = ["RealTable", "file_of"]


def file_of(schema: Schema, *rows: Sequence[Any], **facts: Any) -> File:
    """A file with these rows, whose leaves may be given as Python's own values and structs by field id."""
    return File(
        schema=schema,
        rows=[
            {
                field.field_id: internal(value, field.field_type)
                if isinstance(field.field_type, PrimitiveType)
                else value
                for field, value in zip(schema.fields, row, strict=True)
            }
            for row in rows
        ],
        **facts,
    )


class RealTable:
    """A table on disk, and the truth about it."""

    def __init__(
        self,
        directory: Path,
        schemas: Sequence[Schema],
        files: Sequence[File],
        *,
        parquet: dict[str, Any] | None = None,
        **facts: Any,
    ) -> None:
        self.files = [
            write_parquet(directory / f"{number}.parquet", file, **(parquet or {})) for number, file in enumerate(files)
        ]
        self.schema = schemas[-1]
        self.table: StaticTable = make_table(directory, schemas, self.files, **facts)

    def truth(
        self, where: str | BooleanExpression | None = None, select: Sequence[str] = ("*",)
    ) -> tuple[Schema, list[naive.Row]]:
        """The right answer, and the schema that it has."""
        predicate = parse(where) if isinstance(where, str) else AlwaysTrue() if where is None else where
        output = self._output(select)
        everything = Schema(*self.schema.fields, *METADATA_COLUMNS.values())
        return output, naive.read(self.files, everything, predicate, output)

    def check(
        self, where: str | BooleanExpression | None = None, select: Sequence[str] = ("*",), **options: Any
    ) -> pa.Table:
        """Scan, compare with the truth, and return what was scanned."""
        output, expected = self.truth(where, select)
        answer = formatkit.scan(self.table, where=where, select=select, **options).to_arrow()
        assert answer.column_names == [field.name for field in output.fields]
        assert comparable(from_arrow(output, answer)) == comparable(expected)
        return answer

    def _output(self, select: Sequence[str]) -> Schema:
        names = [name for part in select for name in ([f.name for f in self.schema.fields] if part == "*" else [part])]
        own = [name for name in names if name not in METADATA_COLUMNS]
        selected = {field.field_id: field for field in self.schema.select(*own).fields}
        fields = [
            METADATA_COLUMNS.get(name) or selected[self.schema.find_field(name.split(".")[0]).field_id]
            for name in names
        ]
        return Schema(*dict.fromkeys(fields))
