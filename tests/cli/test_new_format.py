from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.installing import install, run_with
from support.repository import ROOT
from support.shop import Command


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A new package, and the folder that it was installed into."""
    folder = tmp_path_factory.mktemp("new")
    command = [sys.executable, "-m", "formatkit.cli", "new-format", "two-words", "--directory", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    package = folder / "formatkit-two-words"
    install(package, folder / "installed")
    return package, folder / "installed"


def test_the_new_package_passes_its_own_test(installed: tuple[Path, Path]) -> None:
    package, target = installed
    outcome = run_with(target, "-m", "pytest", "-p", "no:cacheprovider", "-q", "tests", cwd=package)
    assert outcome.returncode == 0, outcome.stdout


def test_the_new_format_is_found_by_its_entry_point(installed: tuple[Path, Path]) -> None:
    package, target = installed
    outcome = run_with(target, "-m", "formatkit.cli", "formats", cwd=package)
    assert "two-words" in outcome.stdout
    assert ".two-words" in outcome.stdout


def test_the_new_package_is_clean(installed: tuple[Path, Path], tmp_path: Path) -> None:
    package = shutil.copytree(installed[0], tmp_path / "package")
    settings = ("--config", str(ROOT / "pyproject.toml"), "--no-cache")
    for command in (("check", "--ignore", "S101"), ("format", "--check")):
        outcome = run_with(tmp_path, "-m", "ruff", *command, *settings, str(package), cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize("name", ["", "Toy", "1st", "my_format", "-toy", "toy-", "a/b", "../toy", "t" * 41, "ä"])
def test_a_name_that_cannot_be_one_is_refused(command: Command, name: str, tmp_path: Path) -> None:
    outcome = command("new-format", "--directory", str(tmp_path), "--", name)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "cannot be the name of a format" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_refused(command: Command, tmp_path: Path) -> None:
    outcome = command("new-format", "parquet", "--directory", str(tmp_path))
    assert outcome.code == 2
    assert "installed already" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(command: Command, tmp_path: Path) -> None:
    precious = tmp_path / "formatkit-toy" / "precious"
    precious.parent.mkdir()
    precious.write_text("mine")
    outcome = command("new-format", "toy", "--directory", str(tmp_path))
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "already there" in outcome.err
    assert [path.name for path in precious.parent.iterdir()] == ["precious"]


def test_a_place_that_is_no_folder_is_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = command("new-format", "toy", "--directory", str(tmp_path / "file"))
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


def test_it_says_what_to_do_next(command: Command, tmp_path: Path) -> None:
    outcome = command("new-format", "toy", "--directory", str(tmp_path))
    assert outcome.code == 0
    assert f"pip install -e {tmp_path / 'formatkit-toy'}" in outcome.out
