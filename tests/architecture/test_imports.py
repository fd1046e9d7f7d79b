"""The import rules of pyproject.toml hold, and they bite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.repository import ROOT


def lint_imports(root: Path, *, source: Path) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--config", str(root / "pyproject.toml")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def copy_of_the_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_imports_point_down() -> None:
    outcome = lint_imports(ROOT, source=ROOT / "src")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("path", "line", "complaint"),
    [
        ("formats/parquet/stray.py", "import formatkit.registry", "formatkit.formats is not allowed to import"),
        ("kernel/stray.py", "import pyarrow", "formatkit.kernel is not allowed to import pyarrow"),
        ("contract/stray.py", "import formatkit.batches", "formatkit.contract is not allowed to import"),
        ("helpers.py", "", "helpers"),
    ],
)
def test_a_stray_import_is_reported(copy_of_the_source: Path, path: str, line: str, complaint: str) -> None:
    stray = copy_of_the_source / "src" / "formatkit" / path
    stray.write_text(f"{line}\n")
    try:
        outcome = lint_imports(copy_of_the_source, source=copy_of_the_source / "src")
    finally:
        stray.unlink()
    assert outcome.returncode != 0
    assert complaint in " ".join(outcome.stdout.split())
