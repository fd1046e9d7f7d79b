"""What is given to spark-submit: writes a table on executors, reads it there, and says what they run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

ROWS = 1000


def main(folder: Path, formats: list[str]) -> None:
    spark = SparkSession.builder.appName("shipped").getOrCreate()
    # Not before: what --py-files names can be imported from now on.
    from pyiceberg.catalog import load_catalog

    import formatkit.spark

    found: dict[str, object] = {}
    with load_catalog("c", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri()) as catalog:
        catalog.create_namespace("db")
        for name in formats:
            table = catalog.create_table(f"db.{name}", pa.schema([("id", pa.int64())]))
            formatkit.spark.write(spark.range(0, ROWS, 1, 2).toDF("id"), table, file_format=name)
            found[name] = formatkit.spark.read(spark, table).selectExpr("sum(id)").collect()[0][0]
    ((found["interpreter"], found["module"], found["compiled"]),) = (
        spark.sparkContext.parallelize([0], 1).mapPartitions(_facts).collect()
    )
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


def _facts(_: Iterable[int]) -> Iterator[tuple[str, str, bool]]:
    import formatkit
    from formatkit.batches.compiled.loading import are_ready

    yield sys.executable, formatkit.__file__, are_ready("formatkit.formats.parquet.kernels")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
