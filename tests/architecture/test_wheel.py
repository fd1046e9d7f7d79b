"""What users install is complete."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.repository import ROOT, SOURCE


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_every_module_and_the_typing_marker(wheel: zipfile.ZipFile) -> None:
    modules = {f"formatkit/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*.py")}
    assert modules | {"formatkit/py.typed"} <= set(wheel.namelist())


def test_the_wheel_announces_its_formats_and_its_command(wheel: zipfile.ZipFile) -> None:
    name = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    announced = wheel.read(name).decode()
    assert "[formatkit.formats]" in announced
    assert "\nparquet = " in announced
    assert "formatkit = formatkit.cli:main" in announced


def test_the_wheel_carries_its_licence(wheel: zipfile.ZipFile) -> None:
    name = next(name for name in wheel.namelist() if Path(name).name == "LICENSE")
    assert wheel.read(name) == (ROOT / "LICENSE").read_bytes()
