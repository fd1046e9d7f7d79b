"""`make demo` works where nobody watches, and what it says about formatkit is true."""

from __future__ import annotations

import re
import subprocess
import sys

from support.repository import ROOT


def test_the_demo_runs_and_formatkit_agrees_with_the_rows_that_went_in() -> None:
    outcome = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    answers = re.findall(r"^ +(?:id|amount|comment|channel) (?:<|>|!=) \S+ +(\d+) +(\d+)", outcome.stdout, re.MULTILINE)
    assert len(answers) == 4
    assert all(truth == ours for truth, ours in answers)
