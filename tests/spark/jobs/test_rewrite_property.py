"""Random tables that executors rewrite hold what a list of rows holds, and nothing in them contradicts itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import formatkit
from formatkit.spark import SparkEngine
from support.table_lives import Life

# Five lives in CI: each starts jobs of Spark.
RARELY = settings(
    max_examples=max(1, settings.default.max_examples // 20),  # type: ignore[union-attr]
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@RARELY
@given(st.data())
def test_random_tables_survive_a_rewrite_on_executors(spark: SparkSession, data: st.DataObject) -> None:
    engine = SparkEngine(spark)
    with tempfile.TemporaryDirectory() as directory:
        life = Life(data, Path(directory))
        life.append()
        life.live()
        life.rewrite(engine=engine)
        life.model.check(life.predicate())
        life.model.rewrite(all_files=True, engine=engine)
        life.model.check(life.predicate())
        found = formatkit.validate(life.model.table, engine=engine)
        assert found == formatkit.validate(life.model.table)
        assert found.ok
