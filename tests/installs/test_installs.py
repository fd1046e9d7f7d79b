"""A clone installs by every common tool, into an environment that holds nothing else, and works there.

In `make installs` each way has an empty environment of its own, and gets the newest dependencies. `INSTALLS=short`, as
in CI, takes the pinned ones, which uv puts into one environment; then the tools take turns there.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.repository import ROOT, tracked_files

SHORT = os.environ.get("INSTALLS") == "short"
TOUR = Path(__file__).with_name("tour.py")
UV = [sys.executable, "-m", "uv"]
COMPILED = 3 if (sys.platform, platform.machine()) == ("linux", "x86_64") else 0
TAG = "py3-none-manylinux_2_17_x86_64" if COMPILED else "py3-none-any"


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and how to get formatkit's dependencies with it: not at all, if they are there."""

    python: Path
    options: tuple[str, ...] = ()

    def pip(self, *arguments: str | Path) -> None:
        run(self.python, "-m", "pip", *arguments)

    def pip_install(self, what: Path) -> None:
        self.pip("install", *self.options, what)

    def uv_install(self, what: Path) -> None:
        run(*UV, "pip", "install", "--python", self.python, *self.options, what)


def run(*command: str | Path) -> str:
    """What a command prints, which sees nothing of the environment that runs the tests but the settings of clients."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "FORMATKIT_IMAGES")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(command, env=kept, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In the short form no new release of a dependency changes what happens, and what was downloaded is used again."""
    with pytest.MonkeyPatch.context() as patch:
        if SHORT:
            pins = re.findall(
                r"^[\w.-]+(?:\[.*?\])?==[^\\\n]+", (ROOT / "requirements/dev.txt").read_text(), re.MULTILINE
            )
            path = tmp_path_factory.mktemp("pins") / "constraints.txt"
            path.write_text("\n".join(pins))
            patch.setenv("PIP_NO_COMPILE", "1")
            for client in ("PIP", "UV"):
                patch.setenv(f"{client}_CONSTRAINT", str(path))
                patch.setenv(f"{client}_BUILD_CONSTRAINT", str(path))
        yield


def empty_environment(folder: Path) -> Environment:
    run(getattr(sys, "_base_executable", sys.executable), "-m", "venv", folder)
    return Environment(folder / "bin" / "python")


def clone(folder: Path) -> Path:
    """The tracked files, as they are now."""
    for path in tracked_files():
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return folder


@pytest.fixture(scope="module")
def shared(pinned: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Environment]:
    """A clone, and an environment that uv filled with it and its dependencies."""
    tree = clone(tmp_path_factory.mktemp("clone"))
    environment = empty_environment(tmp_path_factory.mktemp("shared"))
    environment.uv_install(tree)
    return tree, Environment(environment.python, ("--no-deps",))


@pytest.fixture
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if SHORT:
        shared: Path = request.getfixturevalue("shared")[0]
        return shared
    return clone(tmp_path / "clone")


@pytest.fixture
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Environment:
    if SHORT:
        shared: Environment = request.getfixturevalue("shared")[1]
        shared.pip("uninstall", "--yes", "formatkit")
        return shared
    return empty_environment(tmp_path / "environment")


def check_works(environment: Environment, folder: Path) -> None:
    (folder / "files").mkdir()
    run(environment.python, "-W", "error", TOUR, folder / "files", str(COMPILED))
    told = run(environment.python.with_name("formatkit"), "doctor")
    assert told.count("an image for") == COMPILED
    environment.pip("check")


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def pip_install(tree: Path, environment: Environment, made: Path) -> None:
    environment.pip_install(tree)


def newest_pip_wheel(tree: Path, environment: Environment, made: Path) -> None:
    environment.pip("install", "--upgrade", "pip")
    environment.pip("wheel", "--no-deps", "--wheel-dir", made, tree)
    environment.pip_install(only(made, f"*-{TAG}.whl"))


def build(tree: Path, environment: Environment, made: Path) -> None:
    run(sys.executable, "-m", "build", *(["--installer", "uv"] if SHORT else []), "--outdir", made, tree)
    assert only(made, "*.tar.gz").is_file()
    environment.pip_install(only(made, f"*-{TAG}.whl"))


def uv_pip_install(tree: Path, environment: Environment, made: Path) -> None:
    environment.uv_install(tree)


def uv_build(tree: Path, environment: Environment, made: Path) -> None:
    from_tree = ["--sdist", "--wheel"] if SHORT else []
    run(*UV, "build", *from_tree, "--python", environment.python, "--out-dir", made, tree)
    assert only(made, "*.tar.gz").is_file()
    environment.uv_install(only(made, f"*-{TAG}.whl"))


def pip_install_of_sdist(tree: Path, environment: Environment, made: Path) -> None:
    run(sys.executable, "-m", "build", "--sdist", "--outdir", made, tree)
    environment.pip_install(only(made, "*.tar.gz"))


EVERY_WAY = [pip_install, newest_pip_wheel, build, uv_pip_install, uv_build, pip_install_of_sdist]


@pytest.mark.parametrize("way", [pip_install, build, uv_build] if SHORT else EVERY_WAY)
def test_a_clone_is_installed_and_works(
    way: Callable[[Path, Environment, Path], None], tree: Path, environment: Environment, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    way(tree, environment, tmp_path / "made")
    check_works(environment, tmp_path)
