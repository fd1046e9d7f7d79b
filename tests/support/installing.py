"""Packages installed into a folder of their own, and what happens in processes that see them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["install", "run_with"]


def install(package: Path, target: Path) -> None:
    """Install a package as a user would, without its dependencies: they are here already."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    where = ["--no-index", "--disable-pip-version-check", "--target", str(target), str(package)]
    subprocess.run([*command, *where], check=True, capture_output=True, text=True)


def run_with(target: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments where the installed packages can be imported."""
    # Few random examples: what they go through is the same code that other tests go through with many.
    quick = {"PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "dev"}
    environment = {**os.environ, **quick}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
