"""A tour of formatkit on a small real Iceberg table: run it with `make demo`."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pipeline import run_pipeline
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StringType
from showing import code, console, output, say, show, show_rows, step, verdict

import formatkit
import formatkit.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST_ORDERS = [(1, "DE", 1.1, "gift"), (2, "FR", 20.0, None), (None, "DE", 3.5, "late")]
SECOND_ORDERS = [(4, "IT", 1.1, None), (5, "FR", None, "gift")]
LAST_ORDER = {"id": 3_000_000_000, "country": "DE", "amount": 99.5, "comment": "thanks", "channel": "web"}


def main() -> None:
    """Make a table, change its mind twice, and read it."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="formatkit-demo-") as folder, open_catalog(Path(folder)) as catalog:
        table = make_table(catalog)
        look_before_reading(table)
        read_what_evolved(table)
        ask_where_rows_come_from(table)
        hand_it_over(table)
        compare(table)
        mix_formats(table)
        change_rows(table)
        with spark_session() as spark:
            read_on_spark(spark, table)
            run_pipeline(spark, catalog, Path(folder))
    console.print(f"\n[dim]All of it took {time.perf_counter() - started:.1f} s, and nothing is left behind.[/]")
    show_next_steps()


def open_catalog(folder: Path) -> Catalog:
    """An embedded catalog that keeps everything in one folder."""
    return load_catalog("demo", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())


def make_table(catalog: Catalog) -> Table:
    """A partitioned table whose columns were renamed, widened and added to between its files."""
    step("An Iceberg table that has lived a little")
    catalog.create_namespace("shop")
    table = catalog.create_table(
        "shop.orders",
        Schema(
            NestedField(1, "id", IntegerType()),
            NestedField(2, "country", StringType()),
            NestedField(3, "amount", FloatType()),
            NestedField(4, "note", StringType()),
        ),
        partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "country")),
    )
    table.append(_old_rows(FIRST_ORDERS))
    table.append(_old_rows(SECOND_ORDERS))
    with table.update_schema() as update:
        update.rename_column("note", "comment")
        update.update_column("id", LongType())
        update.update_column("amount", DoubleType())
        update.add_column("channel", StringType())
    table.append(pa.Table.from_pylist([LAST_ORDER]))

    files = table.inspect.files()
    say(
        f"It is in an embedded SQLite catalog: {len(files)} Parquet files, partitioned by country. After two appends, "
        "[bold]note[/] was renamed to [bold]comment[/], [bold]id[/] went from int to long, [bold]amount[/] from float "
        "to double, and [bold]channel[/] was added. Then came an order whose id does not fit into 32 bits."
    )
    return table


def look_before_reading(table: Table) -> None:
    """What a scan is going to do."""
    step("Look before you read")
    code("""scan = formatkit.scan(table, where="country = 'DE' and id > 2147483647")\nprint(scan.explain())""")
    scan = formatkit.scan(table, where="country = 'DE' and id > 2147483647")
    output(str(scan.explain()))
    say("Files of other countries are never opened, and neither is the one whose ids are all too small.")


def read_what_evolved(table: Table) -> None:
    """All files answer as if they had been written today."""
    step("Read it: every file answers as if it had been written today")
    code('formatkit.scan(table, where="comment is not null").to_arrow()')
    show(formatkit.scan(table, where="comment is not null"))
    say("Old files have no column [bold]comment[/], no [bold]channel[/], 32-bit ids and floats. You cannot tell.")


def ask_where_rows_come_from(table: Table) -> None:
    """Metadata columns."""
    step("Ask a row where it comes from")
    code('formatkit.scan(table, where="amount > 3", select=("id", "amount", "_file", "_pos", "_partition"))')
    rows = formatkit.scan(table, where="amount > 3", select=("id", "amount", "_file", "_pos", "_partition"))
    show(rows, shorten={"_file": lambda location: f"…{location[-22:]}"})
    say("[bold]_pos[/] is the row's place in its file, whatever was filtered or skipped on the way.")


def hand_it_over(table: Table) -> None:
    """Other libraries take a scan as it is."""
    step("Hand it over: a scan is an Arrow stream")
    try:
        import duckdb
        import polars as pl
    except ImportError:
        say("Polars and DuckDB are not installed here; both take a scan as it is.")
        return
    code('pl.DataFrame(formatkit.scan(table)).group_by("country").agg(pl.col("amount").sum())')
    totals = pl.DataFrame(formatkit.scan(table)).group_by("country").agg(pl.col("amount").sum())
    show_rows(totals.columns, totals.sort("country").iter_rows())
    code('orders = formatkit.scan(table)\nduckdb.sql("select channel, count(*) from orders group by all")')
    orders = formatkit.scan(table)  # noqa: F841 - DuckDB finds it by its name
    counted = duckdb.sql("select channel, count(*) from orders group by all order by channel nulls first")
    show_rows(("channel", "orders"), counted.fetchall() if counted else ())


def compare(table: Table) -> None:
    """The same questions to formatkit, to pyiceberg, and to a loop over the rows."""
    step("Is it right? Ask three times")
    say(
        "The truth is a Python loop over the rows as they went in, with the meaning that Iceberg's spec gives a filter."
    )
    old = [
        {**row, "comment": row["note"], "channel": None} for row in _old_rows(FIRST_ORDERS + SECOND_ORDERS).to_pylist()
    ]
    rows = [*old, LAST_ORDER]
    questions: list[tuple[str, Callable[[dict[str, Any]], bool], str]] = [
        ("id < 3000000000", lambda row: row["id"] is not None and row["id"] < 3_000_000_000, "null is not less"),
        ("amount > 1.1", lambda row: row["amount"] is not None and row["amount"] > 1.1, "1.1 as a float is 1.10000002"),
        ("comment != 'gift'", lambda row: row["comment"] != "gift", "Iceberg: null is not 'gift'"),
        ("channel != 'web'", lambda row: row["channel"] != "web", "the same, on a column added later"),
    ]
    answers = []
    for question, matches, reason in questions:
        truth = sum(map(matches, rows))
        ours = formatkit.scan(table, where=question).count()
        theirs = len(table.scan(row_filter=question).to_arrow())
        answers.append((question, truth, verdict(ours, truth), verdict(theirs, truth), reason))
    show_rows(("where", "rows", "formatkit", f"pyiceberg {version('pyiceberg')}", "why it is a trap"), answers)
    say("docs/comparison.md has more questions, and more readers. A script in this repository asks them.")


def mix_formats(table: Table) -> None:
    """Files of other formats in the same table."""
    step("Mix formats: one table, three kinds of files")
    for number, ending in ((6, "orc"), (7, "avro")):
        order = {**LAST_ORDER, "id": number, "country": "IT", "comment": f"from a file of {ending}"}
        code(f'formatkit.append(table, order, file_format="{ending}")')
        formatkit.append(table, pa.Table.from_pylist([order]), file_format=ending)
    code("""formatkit.scan(table, where="country = 'IT'", select=("id", "amount", "comment", "channel", "_file"))""")
    mixed = formatkit.scan(table, where="country = 'IT'", select=("id", "amount", "comment", "channel", "_file"))
    show(mixed, shorten={"_file": lambda location: f"…{location[-12:]}"})
    say(
        "Ids, promotions, filters and positions mean the same in every format, because the kernel does them once. "
        "[bold]formatkit formats[/] lists what is installed, and [bold]formatkit tck orc[/] proves a format."
    )


def change_rows(table: Table) -> None:
    """Deletes, updates and compaction, each in one snapshot."""
    step("Change it: delete, update, compact")
    code("""formatkit.delete(table, where="comment = 'late'")""")
    formatkit.delete(table, where="comment = 'late'")
    orders = [{**LAST_ORDER, "id": number, "comment": "changed my mind"} for number in (7, 8)]
    code('formatkit.upsert(table, orders, join_columns="id")  # order 7 is there already, order 8 is new')
    result = formatkit.upsert(table, pa.Table.from_pylist(orders), join_columns="id")
    say(
        f"{result.rows_updated} row updated, {result.rows_inserted} inserted. No data file was rewritten: files of "
        "which all rows go are dropped, and of the others a small delete file says which rows are gone. A scan leaves "
        "them out, or marks them if asked to:"
    )
    code("""formatkit.scan(table, where="country != 'FR'", select=("id", "country", "comment", "_deleted"))""")
    show(formatkit.scan(table, where="country != 'FR'", select=("id", "country", "comment", "_deleted")))
    code('print(formatkit.rewrite(table, file_format="parquet"))')
    output(str(formatkit.rewrite(table, file_format="parquet")))
    say("Now all of it is Parquet, and the deleted rows are gone. Older snapshots still show them.")


def read_on_spark(spark: SparkSession, table: Table) -> None:
    """The same table on Spark, planned here and read by its workers."""
    step("The same on Spark")
    code('orders = formatkit.spark.read(spark, table, partitioned_by="country")')
    orders = formatkit.spark.read(spark, table, partitioned_by="country")
    code("""orders.filter("id < 3000000000").groupBy("country").agg({"amount": "sum", "*": "count"})""")
    totals = orders.filter("id < 3000000000").groupBy("country").agg({"amount": "sum", "*": "count"})
    plan = _plan_of(totals)
    show_rows(totals.columns, sorted(tuple(row) for row in totals.collect()))
    expected = len(formatkit.scan(table, where="id < 3000000000").to_arrow())
    counted = orders.filter("id < 3000000000").count()
    say(f"{verdict(counted, expected)} rows here and there. The filter reached the scan, and so did the columns:")
    output(plan)
    say(
        "There is no [bold]Exchange[/] in the plan: files of one country are in one Spark partition, the one that "
        "Spark's own hash would choose, and Spark was told so."
    )


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A Spark of this process, with two slots."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.log.level": "OFF",
        # Tasks start in a few milliseconds instead of in some thirty.
        "spark.python.unix.domain.socket.enabled": "true",
        # Workers are forks of a process that has imported formatkit already, and end with their task. One that waits
        # for more work when Spark stops may notice the closed socket before the signal that ends it, and complain.
        "spark.python.daemon.module": "formatkit.spark.daemon",
        "spark.python.worker.reuse": "false",
    }
    spark = SparkSession.builder.master("local[2]").appName("formatkit demo").config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _plan_of(frame: DataFrame) -> str:
    """What Spark's `explain` prints, without the numbers that Spark gives to columns."""
    with redirect_stdout(io.StringIO()) as printed:
        frame.explain()
    return re.sub(r"#\d+L?", "", printed.getvalue()).strip()


def show_next_steps() -> None:
    """Where to go from here."""
    step("Next")
    for command, purpose in (
        ("make test", "everything that keeps it right"),
        (".venv/bin/formatkit --help", "the same from a shell: scan, explain, append, delete, rewrite, tck, …"),
        ("docs/spark.md", "tables on Spark: read, write, SQL, streams"),
        ("docs/spark-shipping.md", "how formatkit gets to the executors of a cluster"),
        ("docs/semantics.md", "what a filter means, and how evolution is decided"),
        ("docs/architecture.md", "where everything lives"),
        ("rfcs/0001-file-format-api.md", "the contract, if you have a format of your own"),
    ):
        console.print(f"    [bold]{command:<30}[/] {purpose}")


def _old_rows(rows: list[tuple[Any, ...]]) -> pa.Table:
    types = {"id": pa.int32(), "country": pa.string(), "amount": pa.float32(), "note": pa.string()}
    columns = zip(types.items(), zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(values, kind) for (name, kind), values in columns})


if __name__ == "__main__":
    main()
