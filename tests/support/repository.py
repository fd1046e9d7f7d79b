"""The files of this repository, for tests that look at them."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["ROOT", "SOURCE", "tracked_files"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "formatkit"


def tracked_files() -> list[Path]:
    """The files that git knows; in an unpacked archive, all files that are not made by tools."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        found = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        folders = ("src", "tests", "docs", "rfcs", "examples", "benchmarks", "requirements")
        found = [path for folder in folders for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return [path for path in found if path.is_file()]
