"""Forks, in a process of their own: what other tests loaded may hold locks that a child waits for in vain."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.repository import ROOT

CASES = Path(__file__).with_name("forking_cases.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_children_of_a_fork_read_anew() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert outcome.returncode == 0, outcome.stdout[-4000:]
