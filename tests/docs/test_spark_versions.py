"""The table of versions in the guide to Spark is the one that `make sparkversions` made of what is pinned."""

from __future__ import annotations

import re
import tomllib

from sparkversions.features import FEATURES, filters_reach_the_scan
from sparkversions.matrix import PAGE, spark_versions, table_in

from formatkit.spark.versions import TRIED_VERSIONS
from support.repository import ROOT

TABLE = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in table_in(PAGE.read_text("utf-8")).splitlines()
    if line.startswith("|")
]
HEADER, _, *LINES = TABLE


def test_the_pinned_versions_are_its_columns() -> None:
    assert HEADER[1:] == list(spark_versions().values())


def test_all_features_are_its_lines_and_none_failed() -> None:
    assert [line[0] for line in LINES] == [feature.title for feature in FEATURES.values()]
    reasons = len(re.findall(r"^\d+\. `", table_in(PAGE.read_text("utf-8")), re.MULTILINE))
    cells = {cell for line in LINES for cell in line[1:]}
    assert cells <= {"yes", *(f"{word} ({i + 1})" for word in ("no", "same rows") for i in range(reasons))}


def test_plans_are_given_to_the_versions_on_which_that_was_tried() -> None:
    (line,) = (line for line in LINES if line[0] == FEATURES[filters_reach_the_scan.__name__].title)
    tried = [minor for minor, cell in zip(spark_versions(), line[1:], strict=True) if cell == "yes"]
    assert tuple(tried) == TRIED_VERSIONS


def test_the_extra_asks_for_the_oldest_of_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["optional-dependencies"]["spark"] == [f"pyspark>={next(iter(spark_versions()))}"]
