"""Small tables with one question each, chosen because readers in the wild answer some of them wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.typedef import TableVersion

from formatkit.tck import naive
from formatkit.tck.tables import make_table, write_parquet

__all__ = ["Scenario"]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A table, and a question that has one right answer.

    Attributes:
        name: A sentence.
        schemas: The table's schemas, oldest first; the last one answers.
        files: What was written, each file by the schema of its time.
        where: The filter, as a string or as an unbound expression.
    """

    name: str
    schemas: Sequence[Schema]
    files: Sequence[naive.File]
    where: BooleanExpression | str = field(default_factory=AlwaysTrue)
    specs: Sequence[PartitionSpec] = (UNPARTITIONED_PARTITION_SPEC,)
    format_version: TableVersion = 2
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        return self.schemas[-1]

    @property
    def predicate(self) -> BooleanExpression:
        return parse(self.where) if isinstance(self.where, str) else self.where

    def build(self, directory: Path, **parquet: Any) -> StaticTable:
        """Put the table on disk; `parquet` are options of pyarrow's writer."""
        directory.mkdir(parents=True, exist_ok=True)
        stored = [
            write_parquet(directory / f"{number}.parquet", file, **parquet) for number, file in enumerate(self.files)
        ]
        return make_table(
            directory,
            self.schemas,
            stored,
            specs=self.specs,
            format_version=self.format_version,
            properties=self.properties,
        )

    def answer(self) -> list[naive.Row]:
        """The truth, in the order of files and rows."""
        return naive.read(self.files, self.schema, self.predicate)
