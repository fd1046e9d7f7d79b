"""What is asked of the kernel for one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.contract.metadata_columns import DELETED
from formatkit.contract.options import DEFAULT_BATCH_ROWS, Split
from formatkit.kernel.deletes import RowDeletes
from formatkit.kernel.predicates import leaves
from formatkit.kernel.resolve import MissingIds

if TYPE_CHECKING:
    from pyiceberg.table.name_mapping import NameMapping

__all__ = ["FileRequest", "asks_for"]


@dataclass(frozen=True, kw_only=True)
class FileRequest:
    """What to read of one file, in terms of the table. Survives pickling, but for `deletes`.

    Attributes:
        schema: The columns of the result, in order: fields of the table and metadata columns.
        predicate: Which rows; bound by `bind`. Its columns need not be in `schema`.
        location: The file's location as the table spells it; the value of `_file`.
        partition_constants: Values of identity partition fields, by the id of their source; None is a value.
        spec_id: The value of `_spec_id`.
        partition: The value of `_partition`, by position of that column's fields; None if unpartitioned.
        first_row_id: The row id of the file's first row; both lineage columns are null where it is unknown.
        sequence_number: The file's data sequence number.
        returns_stored_lineage: Return stored lineage columns without a first row id, too: of a file without a table.
        name_mapping: Used for files that store no ids at all.
        missing_ids: What to do about files without ids when there is no mapping either.
        table_schema: The whole table, which ids by name and by position come from; `schema` if left out.
        prefer_partition_constants: Let partition constants win over columns that the file stores.
        deletes: Which rows of the file are deleted; its batches are those of the reader.
        keep_deleted: Return deleted rows, too. They are also kept, and marked, where `_deleted` is asked for.
        split: The part of the file to read, or None for all of it.
        batch_rows: The most rows of a batch.
        dictionary_columns: Ids of columns that are welcome in dictionary form.
        threads: On how many threads the reader may decode.
        properties: Passed on to the reader.
    """

    schema: Schema
    location: str
    predicate: BooleanExpression = field(default_factory=AlwaysTrue)
    partition_constants: Mapping[int, Any] = field(default_factory=dict)
    spec_id: int = 0
    partition: tuple[Any, ...] | None = None
    first_row_id: int | None = None
    sequence_number: int | None = None
    returns_stored_lineage: bool = False
    name_mapping: NameMapping | None = None
    missing_ids: MissingIds = "error"
    table_schema: Schema | None = None
    prefer_partition_constants: bool = False
    deletes: RowDeletes[Any] | None = field(default=None, repr=False, compare=False)
    keep_deleted: bool = False
    split: Split | None = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    dictionary_columns: frozenset[int] = frozenset()
    threads: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def heeds_deletes(self) -> bool:
        """Whether it matters which rows are deleted: not if they are kept and nobody asks which they are."""
        return not self.keep_deleted or asks_for(DELETED, self.schema, self.predicate)


def asks_for(column: NestedField, schema: Schema, predicate: BooleanExpression) -> bool:
    """Whether the output has a column, or the filter tests it."""
    ids = {field.field_id for field in schema.fields} | {leaf.term.ref().field.field_id for leaf in leaves(predicate)}
    return column.field_id in ids
