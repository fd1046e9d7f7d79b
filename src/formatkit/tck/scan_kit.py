"""What checks of layer 3 are given: a format with its batch type, and tables to put its files in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import numpy as np
from hypothesis import strategies as st
from pyiceberg.expressions import BooleanExpression
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping

from formatkit.contract import Capability, Split
from formatkit.kernel import FileRequest, RowDeletes, bind, read
from formatkit.registry import FormatRegistry
from formatkit.tck import expect, naive
from formatkit.tck.delete_tables import write_deletes
from formatkit.tck.deletions import Deletes, EqualityDeletes, with_deletes
from formatkit.tck.kits import FormatKit
from formatkit.tck.manifests import Entry
from formatkit.tck.mappings import mapped_fields, name_mapping
from formatkit.tck.scanned import ScannedTable, as_expression
from formatkit.tck.tables import make_table
from formatkit.tck.without_ids import without_ids

__all__ = ["ScanKit"]

B = TypeVar("B")


@dataclass(frozen=True, kw_only=True)
class ScanKit(Generic[B]):
    """A format with its batch type, inside real tables.

    Attributes:
        format: The format.
        maps_names: Whether tables get a name mapping by themselves where the format stores no ids.
    """

    format: FormatKit[B]
    maps_names: bool = True

    @property
    def registry(self) -> FormatRegistry:
        """A registry that knows nothing but what is under test."""
        registry = FormatRegistry()
        registry.register(self.format.plugin)
        registry.register_batch(self.format.batches.operations)
        return registry

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A place for a table; gone at the end of the block."""
        with TemporaryDirectory(prefix="formatkit-tck-") as name:
            yield Path(name)

    def write(self, folder: Path, file: naive.File, name: str) -> naive.File:
        """Put a file of the format into the folder; a file without rows is left out, as writers leave it out.

        A file that has a location already, which is one inside of the folder, is put there, and told by its plain path.
        """
        path = folder / (file.location or f"{name}.{self.format.plugin.file_format}")
        if file.rows:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.format.write(file.schema, file.rows).data)
        location = str(path.absolute()) if file.location else path.absolute().as_uri()
        return replace(file, location=location, file_format=self.format.plugin.file_format)

    def write_deletes(self, folder: Path, deletes: Sequence[Deletes], files: Sequence[naive.File]) -> Iterable[Entry]:
        """Put files with the deletes into the folder, and say what manifests say of them."""
        return write_deletes(self.format, folder, deletes, files)

    @contextmanager
    def built(
        self,
        schemas: Sequence[Schema],
        files: Sequence[naive.File],
        *,
        deletes: Sequence[Deletes] = (),
        specs: Sequence[PartitionSpec] = (UNPARTITIONED_PARTITION_SPEC,),
        properties: Mapping[str, str] | None = None,
        **facts: Any,
    ) -> Iterator[ScannedTable[B]]:
        """A table of one snapshot; gone at the end of the block.

        Args:
            schemas: All schemas that the table had; the last one is current.
            files: What was written, each with the schema of its time.
            deletes: What was deleted.
            specs: All specs that the table had.
            properties: Of the table.
            facts: Further keywords of `make_table`.
        """
        with self.folder() as folder:
            written = [self.write(folder, file, f"file-{number}") for number, file in enumerate(files)]
            stored = [file for file in written if file.rows]
            entries = list(self.write_deletes(folder, deletes, written))
            mapping = self._mapping_of(
                [file.schema for file in stored]
                + [each.schema for each in deletes if isinstance(each, EqualityDeletes)]
            )
            known = {**(name_mapping(mapping) if mapping else {}), **(properties or {})}
            yield ScannedTable(
                table=make_table(folder, schemas, stored, specs=specs, properties=known, deletes=entries, **facts),
                schema=schemas[-1],
                specs=specs,
                files=with_deletes(written, deletes, schemas, specs),
                batches=self.format.batches,
                registry=self.registry,
            )

    def compare(
        self,
        schemas: Sequence[Schema],
        files: Sequence[naive.File],
        where: str | BooleanExpression | None = None,
        select: Sequence[str] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        **facts: Any,
    ) -> None:
        """Ask one question of a table: `ScannedTable.compare` of what `built` makes of `facts`."""
        with self.built(schemas, files, **facts) as table:
            table.compare(where, select, **(options or {}))

    def compare_file(
        self,
        file: naive.File,
        output: Schema,
        where: str | BooleanExpression | None = None,
        *,
        split_bytes: int | None = None,
        **request: Any,
    ) -> None:
        """Compare the rows of one file with the naive evaluator, without a table.

        Args:
            file: What is written, and which of its rows are deleted.
            output: The columns to read: those of the table and metadata columns, by id.
            where: The filter, on columns of `output`.
            split_bytes: How long the parts are in which the file is read; all of it at once if left out.
            request: Further fields of `FileRequest`. Rows are deleted by their positions unless it has `deletes`.
        """
        data = self.format.write(file.schema, file.rows).data
        mapping = self._mapping_of([file.schema])
        whole = FileRequest(
            schema=output,
            location="memory:checked",
            predicate=bind(output, as_expression(where)),
            first_row_id=file.first_row_id,
            sequence_number=file.sequence_number,
            name_mapping=NameMapping.model_validate(mapping) if mapping else None,
            **{"deletes": RowDeletes(positions=np.array(sorted(file.deleted), np.int64)), **request},
        )
        found: list[naive.Row] = []
        size = split_bytes or len(data)
        with self.format.opened(data) as opened:
            for start in range(0, len(data), size):
                part = replace(whole, split=Split(start, min(size, len(data) - start)) if split_bytes else None)
                with read(opened, self.format.batches.operations, part) as batches:
                    found += [row for batch in batches for row in self.format.batches.rows(output, batch)]
        expected = naive.read([replace(file, location=whole.location)], output, as_expression(where))
        expect.equal_rows(found, expected, f"rows where {where}" if where is not None else "rows")

    def without_ids(self, hidden: Collection[int] | None = None) -> ScanKit[B]:
        """The same format, with all ids of its files hidden, or some."""
        plugin = without_ids(self.format.plugin, hidden)
        return replace(self, format=replace(self.format, plugin=plugin), maps_names=False)

    def random(self, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        return self.format.random(*strategies)

    def _mapping_of(self, schemas: Sequence[Schema]) -> list[dict[str, Any]]:
        """What makes up for ids that the format does not store."""
        if not self.maps_names or Capability.FIELD_IDS in self.format.plugin.capabilities:
            return []
        return mapped_fields([schema.as_struct() for schema in schemas])
