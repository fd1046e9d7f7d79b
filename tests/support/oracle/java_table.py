"""A table that Java writes: each step is one commit of Iceberg's own library."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.expressions.parser import parse
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable

import formatkit
from formatkit.contract.schema_json import schema_to_json
from formatkit.tck.naive import Row
from support.oracle.json_values import from_json, to_json
from support.oracle.servant import Servant

__all__ = ["JavaTable", "equality", "read_by_java"]

Positions = Sequence[tuple[str, int]]


class JavaTable:
    """A table in a folder, known by its current metadata file."""

    def __init__(self, java: Servant, metadata: str, schema: Schema) -> None:
        self.java = java
        self.metadata = metadata
        self.schema = schema

    @classmethod
    def create(
        cls,
        java: Servant,
        folder: Path,
        schema: Schema,
        *,
        version: int = 2,
        spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        properties: Mapping[str, str] | None = None,
    ) -> JavaTable:
        answer = java.ask(
            do="create",
            location=str(folder),
            version=version,
            schema=_json(schema),
            spec=spec.model_dump(by_alias=True, mode="json"),
            properties=properties,
        )
        return cls(java, answer["metadata"], schema)

    def append(self, rows: Sequence[Row], file_format: str = "parquet") -> list[str]:
        """The locations of the new data files, one for each partition in the order of its first row."""
        return self._commit("append", file_format, rows=to_json(self.schema, rows))

    def row_delta(
        self,
        file_format: str = "parquet",
        *,
        rows: Sequence[Row] = (),
        positions: Positions = (),
        equality: Sequence[Mapping[str, Any]] = (),
        vectors: Positions = (),
    ) -> list[str]:
        """Rows and deletes of any kind in one snapshot; the locations of all new files."""
        return self._commit(
            "row-delta",
            file_format,
            rows=to_json(self.schema, rows) or None,
            positions=list(positions) or None,
            equality=list(equality) or None,
            vectors=list(vectors) or None,
        )

    def replace(
        self,
        operation: str,
        rows: Sequence[Row] = (),
        file_format: str = "parquet",
        *,
        remove: Collection[str] = (),
        where: str | None = None,
    ) -> list[str]:
        """One of Java's ``overwrite``, ``rewrite``, ``delete`` and ``rewrite-manifests``."""
        return self._commit(
            operation,
            file_format,
            rows=to_json(self.schema, rows) or None,
            remove=list(remove),
            filter=_filter(where),
        )

    def evolve(
        self,
        schema: Schema | None = None,
        *,
        spec: PartitionSpec | None = None,
        version: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Another schema, spec or format version, with the ids that are given."""
        self.schema = schema or self.schema
        self.metadata = self.java.ask(
            do="evolve",
            metadata=self.metadata,
            schema=_json(self.schema),
            spec=spec and spec.model_dump(by_alias=True, mode="json"),
            version=version,
            properties=properties,
        )["metadata"]

    def plan(self) -> dict[str, Any]:
        """The data files, the deletes that Java applies to each, and the summary of the snapshot."""
        return self.java.ask(do="plan", metadata=self.metadata)

    def rows(self, **options: Any) -> list[Row]:
        """What Java itself reads."""
        return read_by_java(self.java, self.metadata, options.pop("schema", self.schema), **options)

    def load(self) -> StaticTable:
        """The same table as formatkit loads it."""
        return formatkit.load_table(self.metadata)

    def _commit(self, operation: str, file_format: str, **parts: Any) -> list[str]:
        answer = self.java.ask(do="commit", metadata=self.metadata, operation=operation, format=file_format, **parts)
        self.metadata = answer["metadata"]
        return [file["path"] for file in answer["files"]]


def equality(
    schema: Schema, rows: Sequence[Row], ids: Sequence[int], partition_of: str | None = None
) -> dict[str, Any]:
    """An equality delete file with the columns of the schema, for one partition or for all."""
    job = {"ids": list(ids), "schema": _json(schema), "rows": to_json(schema, rows)}
    return job | ({"partition_of": partition_of} if partition_of else {})


def read_by_java(
    java: Servant,
    metadata: str,
    schema: Schema,
    where: str | None = None,
    snapshot_id: int | None = None,
) -> list[Row]:
    """The rows that Iceberg's generic reader gives for the fields of the schema."""
    answer = java.ask(do="read", metadata=metadata, schema=_json(schema), filter=_filter(where), snapshot=snapshot_id)
    return from_json(schema, answer["rows"])


def _json(schema: Schema) -> Any:
    return json.loads(schema_to_json(schema))


def _filter(where: str | None) -> Any:
    return None if where is None else parse(where).model_dump(mode="json")
