"""A little of `make sparkversions` on an older Spark, where `make test` has installed it."""

from __future__ import annotations

import pytest
from sparkversions.features import SHORT
from sparkversions.matrix import run_features

VERSION = "4.0"


@pytest.mark.parametrize("version", [VERSION])
def test_tables_are_read_and_written_on_an_older_spark(version: str) -> None:
    assert {each.feature: (each.outcome, each.message) for each in run_features(version, SHORT)} == dict.fromkeys(
        SHORT, ("works", "")
    )
