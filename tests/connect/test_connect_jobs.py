"""Jobs on executors that only Spark Connect leads to."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import formatkit
from formatkit.errors import CorruptFileError
from formatkit.spark import SparkEngine
from support.filters import In
from support.iceberg_tables import local_path
from support.operated_tables import BY_PART, filled_table
from support.written_tables import data_files, files_on_disk


def test_a_rewrite_and_a_validation(spark: SparkSession, tmp_path: Path) -> None:
    engine = SparkEngine(spark)
    model = filled_table(tmp_path, 3, partitions=BY_PART)
    model.delete(In("id", [1, 2, 15]), "merge-on-read")
    model.rewrite(file_format="orc", engine=engine, max_commits=2)
    model.check()
    assert {task.file_format for task in formatkit.scan(model.table).tasks} == {"orc"}
    assert formatkit.validate(model.table, engine=engine).findings == ()
    damaged = local_path(data_files(model.table)[0].file_path)
    damaged.write_bytes(damaged.read_bytes()[:-8] + b"damaged!")
    before = files_on_disk(model.table)
    with pytest.raises(CorruptFileError):
        formatkit.rewrite(model.table, "avro", engine=engine)
    assert files_on_disk(model.table) == before
