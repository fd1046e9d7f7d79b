"""What users install is complete."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.repository import ROOT, SOURCE, tracked_files

HAS_IMAGES = (sys.platform, platform.machine()) == ("linux", "x86_64")
STALE = "x86-64-v3-00000000.image"


def build(root: Path, folder: Path, target: str = "wheel", **environment: str) -> tuple[Path, str]:
    """What hatchling makes, and what it says meanwhile."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    shown = {**os.environ, **environment}
    done = subprocess.run(command, cwd=root, check=True, env=shown, capture_output=True, text=True)
    (made,) = folder.iterdir()
    return made, done.stdout + done.stderr


def images(wheel: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".image")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build(ROOT, tmp_path_factory.mktemp("wheel"))[0])


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """What a wheel is made of, with compiled code of these and of older sources."""
    copied = tmp_path / "copied"
    shutil.copytree(ROOT / "src", copied / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, copied)
    (copied / "src" / "formatkit" / "formats" / "orc" / "kernels" / STALE).write_bytes(b"stale")
    return copied


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


@pytest.mark.parametrize("folder_of_images", ["", "elsewhere"])
def test_wheels_bring_compiled_code_of_these_sources_only(copied: Path, tmp_path: Path, folder_of_images: str) -> None:
    made, _ = build(copied, tmp_path / "made", FORMATKIT_IMAGES=folder_of_images and str(tmp_path / folder_of_images))
    found = [Path(name) for name in images(made)]
    assert made.name.endswith("-py3-none-manylinux_2_17_x86_64.whl" if HAS_IMAGES else "-py3-none-any.whl")
    assert sorted(path.parts[2] for path in found) == (["avro", "orc", "parquet"] if HAS_IMAGES else [])
    assert STALE not in {path.name for path in found}


def test_a_wheel_without_compiled_code_is_for_every_platform(copied: Path, tmp_path: Path) -> None:
    made, _ = build(copied, tmp_path / "made", FORMATKIT_IMAGES="off")
    assert made.name.endswith("-py3-none-any.whl")
    assert images(made) == []


@pytest.mark.skipif(not HAS_IMAGES, reason="nothing is compiled here")
def test_a_compiler_that_fails_is_reported_and_the_wheel_does_without(copied: Path, tmp_path: Path) -> None:
    for image in copied.rglob("*.image"):
        image.unlink()
    (tmp_path / "numba.py").write_text("raise ImportError('no compiler today')")
    made, said = build(copied, tmp_path / "made", PYTHONPATH=str(tmp_path))
    assert made.name.endswith("-py3-none-any.whl")
    assert "no compiler today" in said
    assert "cannot be compiled" in said


def test_the_sdist_holds_what_git_tracks_and_no_compiled_code(tmp_path: Path) -> None:
    made, _ = build(ROOT, tmp_path / "made", target="sdist")
    with tarfile.open(made) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert held >= {path.relative_to(ROOT).as_posix() for path in tracked_files()}
    assert not [name for name in held if name.endswith(".image")]
