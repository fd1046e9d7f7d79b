"""Rows of a table make way for those of a micro-batch that have the same keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract.metadata_columns import FILE, POS
from formatkit.scan.files import read_file
from formatkit.write.commit import Change, UncommittedFiles
from formatkit.write.operations.base import Base
from formatkit.write.operations.keys import KeyIndex, key_columns
from formatkit.write.operations.matches import Matches, matches_in_files
from formatkit.write.operations.merge_on_read import mark_deleted, refuse_version_1
from formatkit.write.operations.output import Output

__all__ = ["RowsByKey"]


class RowsByKey:
    """Finds the rows of a table by the keys that new files have, and marks them as deleted.

    The keys of a micro-batch are in memory for this; the rows of the table are not.

    Args:
        table: The table as it is now.
        branch: The branch whose rows are replaced.
        join_columns: The columns that are the key; the identifier fields of the table's schema if there are none.

    Raises:
        ConfigurationError, ColumnNotFoundError: These columns identify no row.
        UnsupportedError: The table is of version 1, which has no delete files.
    """

    def __init__(self, table: Table, branch: str, join_columns: Sequence[str]) -> None:
        self._table = table
        self._base = Base.of(table, branch, None)
        refuse_version_1(self._base)
        paths = key_columns(self._base.schema, join_columns or None)
        self._tops = {path[0].field_id: path[0] for path in paths}
        self._schema = Schema(*self._tops.values())
        self._paths = key_columns(self._schema, [".".join(field.name for field in path) for path in paths])

    def replace(self, files: Sequence[DataFile], deletes: UncommittedFiles) -> Change | None:
        """The change that adds files in place of the rows that have their keys; None if there are no files.

        Args:
            files: What was written, each key once.
            deletes: Is told of the delete files that are written here.

        Raises:
            InvalidDataError: Two rows have the same key, or a part of a key is null.
        """
        if not files:
            return None
        base, width = self._base, len(self._tops)
        index = KeyIndex(self._schema, self._paths, self._keys(files), ArrowBatch())
        where = index.filter()

        def replaced(batch: pa.RecordBatch) -> pa.RecordBatch:
            met = np.flatnonzero(index.rows_for(batch.select(range(width))) >= 0)
            return batch.select((width, width + 1)).take(met)

        names = [field.name for field in self._schema.fields]
        scan = base.scan((*names, FILE.name, POS.name), where)
        matches = Matches(whole=(), parts=matches_in_files(scan, replaced))
        removal = mark_deleted(base, matches, Output(base, self._table.io, deletes))
        return removal.change(tuple(files), base_snapshot_id=base.snapshot_id, conflict_filter=where, command="merge")

    def _keys(self, files: Sequence[DataFile]) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        for file in files:
            source = self._table.io.new_input(file.file_path)
            with read_file(source, schema=self._schema, file_format=file.file_format.value).to_batches() as batches:
                found += batches
        return found
