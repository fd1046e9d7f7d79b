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
    assert outcome.returncode == 0, outcome.stderr
    assert "Traceback" not in outcome.stderr
    answers = re.findall(r"^ +(?:id|amount|comment|channel) (?:<|>|!=) \S+ +(\d+) +(\d+)", outcome.stdout, re.MULTILINE)
    assert len(answers) == 4
    assert all(truth == ours for truth, ours in answers)
    plan = outcome.stdout.partition("== Physical Plan ==")[2].partition("There is no")[0]
    assert "formatkit demo.shop.orders buckets:[4]" in plan
    assert "Exchange" not in plan
    assert re.search(r"^ +7 rows here and there", outcome.stdout, re.MULTILINE)
    # The pipeline: every row is there once, after one commit for each step.
    assert re.search(r"^ +7 rows are in the table, each of them once", outcome.stdout, re.MULTILINE)
    commits = re.findall(r"^ +(?:first rows|merge|stream|compact) +(\w+) .* (\d+) *$", outcome.stdout, re.MULTILINE)
    assert commits == [("append", "3"), ("overwrite", "5"), ("append", "7"), ("replace", "7")]
