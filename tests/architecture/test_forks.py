"""No lock of formatkit can stop the child of a fork: each is free there, or belongs to what a child never uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.repository import SOURCE

# A child refuses the streams of its parent (`BatchStream.after_fork`) and the files that its parent writes, and makes
# workers, budgets, read-ahead and rings anew.
NEVER_USED_BY_CHILDREN = {
    "io/budget.py",
    "io/fetching.py",
    "io/routed_sink.py",
    "io/uring/ring_thread.py",
    "io/workers.py",
    "scan/deletes/reading.py",
    "scan/deletes/sharing.py",
    "scan/look_ahead.py",
    "scan/open_files.py",
    "scan/run_sources.py",
    "scan/runner.py",
    "scan/session.py",
}
LOCK = re.compile(r"(?<!fork_safe\()\bthreading\.(?:R?Lock|Condition|Semaphore|BoundedSemaphore|Barrier)\b(?! =)")
MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_locks_survive_forks(path: Path) -> None:
    text = path.read_text()
    name = path.relative_to(SOURCE).as_posix()
    if name == "forks.py":
        return
    assert "cached_property" not in text, "it has a lock until Python 3.12; use formatkit.forks.cached"
    if name not in NEVER_USED_BY_CHILDREN:
        assert LOCK.findall(text) == [], "use formatkit.forks.fork_safe"
