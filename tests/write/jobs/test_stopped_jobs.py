"""A rewrite whose process is killed goes on where it was stopped: no file is written twice, no row lost or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.doomed_writer import POINTS
from support.stopped_jobs import check_that_a_stopped_job_goes_on


@pytest.mark.parametrize(("point", "commits"), [*((point, 1) for point in POINTS), ("before the catalog is asked", 0)])
def test_a_killed_rewrite_goes_on(tmp_path: Path, point: str, commits: int) -> None:
    check_that_a_stopped_job_goes_on(tmp_path, "local", point, commits, None)
