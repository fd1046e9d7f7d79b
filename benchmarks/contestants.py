"""How a user of each engine gets Arrow data out of the table. Every engine keeps its own defaults."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.table import StaticTable

__all__ = ["CONTESTANTS", "Question", "questions"]

ALL = ("id", "key", "quantity", "price", "amount", "at", "day", "city", "comment", "flag")

os.environ.setdefault("DAFT_PROGRESS_BAR", "0")
os.environ.setdefault("POLARS_VERBOSE", "0")


@dataclass(frozen=True)
class Question:
    """Some columns of the rows where `low <= column < high`."""

    name: str
    columns: Sequence[str]
    column: str | None = None
    low: int = 0
    high: int = 0

    @property
    def where(self) -> str | None:
        """The filter as SQL and as pyiceberg's parser read it."""
        return f"{self.column} >= {self.low} and {self.column} < {self.high}" if self.column else None


def questions(rows: int) -> list[Question]:
    """What is measured; `id` counts from 0 and is sorted, `key` is uniform below 2**40 and is not."""
    middle = rows // 3
    return [
        Question("full scan", ALL),
        Question("three columns", ("id", "price", "city")),
        Question("1 % by sorted column", ALL, "id", middle, middle + rows // 100),
        Question("0.01 % by sorted column", ALL, "id", middle, middle + rows // 10_000),
        Question("1 % by unsorted column", ALL, "key", 2**39, 2**39 + 2**40 // 100),
        Question("0.01 % by unsorted column", ALL, "key", 2**39, 2**39 + 2**40 // 10_000),
    ]


Ask = Callable[[Question], pa.Table]


def _paths(table: StaticTable) -> list[str]:
    return [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]


def _formatkit(table: StaticTable) -> Ask:
    import formatkit

    return lambda question: formatkit.scan(table, where=question.where, select=tuple(question.columns)).to_arrow()


def _pyiceberg(table: StaticTable) -> Ask:
    def ask(question: Question) -> pa.Table:
        return table.scan(row_filter=question.where or "true", selected_fields=tuple(question.columns)).to_arrow()

    return ask


def _pyarrow(table: StaticTable) -> Ask:
    dataset = ds.dataset(_paths(table))

    def ask(question: Question) -> pa.Table:
        if question.column is None:
            return dataset.to_table(columns=list(question.columns))
        column = pc.field(question.column)
        return dataset.to_table(
            columns=list(question.columns), filter=(column >= question.low) & (column < question.high)
        )

    return ask


def _polars(table: StaticTable) -> Ask:
    import polars as pl

    def ask(question: Question) -> pa.Table:
        frame = pl.scan_iceberg(table, reader_override="native")
        if question.column is not None:
            column = pl.col(question.column)
            frame = frame.filter((column >= question.low) & (column < question.high))
        # The newest compatibility level hands out Polars' own buffers instead of copying its string views.
        return frame.select(question.columns).collect().to_arrow(compat_level=pl.CompatLevel.newest())

    return ask


def _daft(table: StaticTable) -> Ask:
    import daft

    def ask(question: Question) -> pa.Table:
        frame = daft.read_iceberg(table)
        if question.column is not None:
            column = daft.col(question.column)
            frame = frame.where((column >= question.low) & (column < question.high))
        return frame.select(*question.columns).to_arrow()

    return ask


def _sql(question: Question, source: str) -> str:
    columns = ", ".join(f'"{column}"' for column in question.columns)
    return f"select {columns} from {source}" + (f" where {question.where}" if question.where else "")


def _iceberg_rust(table: StaticTable) -> Ask:
    from datafusion import SessionContext

    context = SessionContext()
    context.register_table("measured", table)
    return lambda question: context.sql(_sql(question, "measured")).to_arrow_table()


def _datafusion(table: StaticTable) -> Ask:
    from datafusion import SessionConfig, SessionContext

    config = SessionConfig().set("datafusion.execution.parquet.pushdown_filters", "true")
    context = SessionContext(config)
    for number, path in enumerate(_paths(table)):
        context.register_parquet(f"file_{number}", path)
    union = " union all ".join(f"select * from file_{number}" for number in range(len(_paths(table))))
    context.sql(f"create view measured as {union}")
    return lambda question: context.sql(_sql(question, "measured")).to_arrow_table()


def _duckdb(table: StaticTable) -> Ask:
    import duckdb

    connection = duckdb.connect()
    files = ", ".join(f"'{path}'" for path in _paths(table))
    return lambda question: connection.sql(_sql(question, f"read_parquet([{files}])")).to_arrow_table()


CONTESTANTS: dict[str, Callable[[StaticTable], Ask]] = {
    "formatkit": _formatkit,
    "pyarrow dataset": _pyarrow,
    "pyiceberg": _pyiceberg,
    "Polars": _polars,
    "Daft": _daft,
    "iceberg-rust": _iceberg_rust,
    "DataFusion": _datafusion,
    "DuckDB": _duckdb,
}


def prepare(name: str, metadata_location: str) -> Callable[[Question], Any]:
    """Everything that is done once: open the table, start the engine."""
    return partial(CONTESTANTS[name](StaticTable.from_metadata(metadata_location)))
