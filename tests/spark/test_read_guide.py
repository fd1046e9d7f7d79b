"""The Python in the guide runs."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, NestedField, StringType
from pyspark.sql import SparkSession

import formatkit
from support.iceberg_tables import new_catalog
from support.repository import ROOT
from support.written_tables import new_table, spec

BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DAYS = [dt.date(2026, 1, day) for day in (1, 2, 3)]


def test_the_blocks_run_in_order(spark: SparkSession, tmp_path: Path) -> None:
    day = NestedField(1, "day", DateType())
    by_day = spec((1, IdentityTransform()))
    table = new_table(new_catalog(tmp_path / "sales"), day, NestedField(2, "amount", DoubleType()), partitions=by_day)
    formatkit.append(table, pa.table({"day": DAYS * 4, "amount": [float(i * 5) for i in range(12)]}))
    days = new_table(new_catalog(tmp_path / "days"), day, NestedField(2, "name", StringType()), partitions=by_day)
    formatkit.append(days, pa.table({"day": DAYS[:2], "name": ["one", "two"]}))
    names: dict[str, Any] = {"spark": spark, "table": table, "days": days}
    page = ROOT / "docs" / "spark.md"
    blocks = BLOCK.findall(page.read_text())
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
