"""What takes the place of which function of pyiceberg."""
# ruff: noqa: SLF001 - these are the places where pyiceberg's reading can be taken over without leaving one out

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import wraps
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.io import pyarrow as pyiceberg_io
from pyiceberg.io.fileformat import FileFormatFactory, FileFormatModel
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask, Transaction, _parse_row_filter
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3

from formatkit.integrations.pyiceberg.file_formats import give_way
from formatkit.integrations.pyiceberg.filters import arrow_filter
from formatkit.integrations.pyiceberg.patches import Patches
from formatkit.integrations.pyiceberg.scans import rows_of
from formatkit.integrations.pyiceberg.tasks import plan_files, rows_of_tasks
from formatkit.integrations.pyiceberg.writing import check_version, data_files
from formatkit.registry import FormatRegistry
from formatkit.write.commit import enable_version3

__all__ = [
    "replace_deletes",
    "replace_metadata",
    "replace_registration",
    "replace_scans",
    "replace_tasks",
    "replace_writes",
]


def replace_scans(patches: Patches, registry: FormatRegistry) -> None:
    """Scans of tables; `to_pandas`, `to_polars`, `to_duckdb` and so on are built on them."""
    pyicebergs_to_arrow = DataScan.to_arrow
    pyicebergs_reader = DataScan.to_arrow_batch_reader
    pyicebergs_count = DataScan.count
    pyicebergs_plan = DataScan.plan_files

    def is_planned_here(scan: DataScan) -> bool:
        """Whether the files are for formatkit to find; a catalog's server or a subclass may do it."""
        return type(scan).plan_files is pyicebergs_plan and not scan._should_use_server_side_planning()

    @wraps(pyicebergs_to_arrow)
    def to_arrow(self: DataScan, dictionary_columns: tuple[str, ...] = ()) -> pa.Table:
        if not is_planned_here(self):
            return pyicebergs_to_arrow(self, dictionary_columns)
        return rows_of(self, dictionary_columns, registry).to_table()

    @wraps(pyicebergs_reader)
    def to_arrow_batch_reader(self: DataScan, dictionary_columns: tuple[str, ...] = ()) -> pa.RecordBatchReader:
        if not is_planned_here(self):
            return pyicebergs_reader(self, dictionary_columns)
        return rows_of(self, dictionary_columns, registry).to_reader()

    @wraps(pyicebergs_count)
    def count(self: DataScan) -> int:
        if not is_planned_here(self):
            return pyicebergs_count(self)
        if not self.snapshot():
            return 0
        # As in pyiceberg, neither the selection nor the limit matters.
        return rows_of(self.update(selected_fields=("*",), limit=None), (), registry).scan.count()

    patches.replace(DataScan, "to_arrow", to_arrow)
    patches.replace(DataScan, "to_arrow_batch_reader", to_arrow_batch_reader)
    patches.replace(DataScan, "count", count)


def replace_tasks(patches: Patches, registry: FormatRegistry) -> None:
    """Planning and reading in two steps, as copy-on-write, incremental scans and other libraries do it."""

    @wraps(DataScan._plan_files_local)
    def _plan_files_local(self: DataScan) -> Iterable[FileScanTask]:
        snapshot = self.snapshot()
        return plan_files(self, snapshot, registry) if snapshot else []

    @wraps(ArrowScan.to_table)
    def to_table(self: ArrowScan, tasks: Iterable[FileScanTask]) -> pa.Table:
        return rows_of_tasks(self, tasks, registry).to_table()

    @wraps(ArrowScan.to_record_batches)
    def to_record_batches(self: ArrowScan, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        return rows_of_tasks(self, tasks, registry).to_batches()

    patches.replace(DataScan, "_plan_files_local", _plan_files_local)
    patches.replace(ArrowScan, "to_table", to_table)
    patches.replace(ArrowScan, "to_record_batches", to_record_batches)


def replace_deletes(patches: Patches) -> None:
    """Which rows copy-on-write takes: those that a scan with the same filter shows, and no others.

    pyiceberg drops a file unread if its metrics say that all rows match, where a null counts as a match of ``!=``, and
    keeps each row that is null or NaN in any column of the filter, whatever the other columns say.
    """
    pyicebergs = Transaction.delete

    @wraps(pyicebergs)
    def delete(self: Transaction, delete_filter: str | BooleanExpression, *args: Any, **more: Any) -> None:
        check_version(self.table_metadata)
        pyicebergs(self, arrow_filter(_parse_row_filter(delete_filter)), *args, **more)

    @wraps(pyiceberg_io._expression_to_complementary_pyarrow)
    def _expression_to_complementary_pyarrow(expr: BooleanExpression, schema: Schema | None = None) -> pc.Expression:
        matches = pyiceberg_io.expression_to_pyarrow(expr, schema)
        return ~matches | matches.is_null()

    patches.replace(Transaction, "delete", delete)
    patches.replace(pyiceberg_io, "_expression_to_complementary_pyarrow", _expression_to_complementary_pyarrow)


def replace_writes(patches: Patches, registry: FormatRegistry) -> None:
    """The one function through which pyiceberg turns rows into data files."""
    pyicebergs = pyiceberg_io._dataframe_to_data_files

    @wraps(pyicebergs)
    def _dataframe_to_data_files(
        table_metadata: TableMetadata, df: pa.Table | pa.RecordBatchReader, io: FileIO, *names: Any, **more: Any
    ) -> Iterable[DataFile]:
        def by_pyiceberg() -> Iterable[DataFile]:
            return pyicebergs(table_metadata, df, io, *names, **more)

        return data_files(table_metadata, df, io, registry, by_pyiceberg)

    patches.replace(pyiceberg_io, "_dataframe_to_data_files", _dataframe_to_data_files)


def replace_metadata(patches: Patches) -> None:
    """Tables of format version 3 can be created, and their schemas and properties changed."""
    original = vars(TableMetadataV3)["model_dump_json"]
    enable_version3()
    patches.replaced(TableMetadataV3, "model_dump_json", original)


def replace_registration(patches: Patches) -> None:
    """A writer that a program registers itself takes the place of formatkit's."""
    pyicebergs = vars(FileFormatFactory)["register"].__func__

    @wraps(pyicebergs)
    def register(cls: type[FileFormatFactory], model: FileFormatModel) -> None:
        give_way(model.format)
        pyicebergs(cls, model)

    patches.replace(FileFormatFactory, "register", classmethod(register))
