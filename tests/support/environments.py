"""Environments of Python that have what this one has, but for formatkit."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

__all__ = ["environment_without_formatkit", "install_version"]


def environment_without_formatkit(folder: Path) -> Path:
    """The interpreter of a new environment, whose packages are links to those of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if "formatkit" not in package.name and package.suffix != ".pth":
            (_packages(folder) / package.name).symlink_to(package)
    return folder / "bin" / "python"


def install_version(folder: Path, version: str) -> None:
    """Let such an environment say that it has some version of formatkit. There is nothing in it."""
    packages = _packages(folder)
    for old in packages.glob("formatkit*"):
        shutil.rmtree(old)
    (packages / "formatkit").mkdir()
    (packages / "formatkit" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    information = packages / f"formatkit-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: formatkit\nVersion: {version}\n")


def _packages(folder: Path) -> Path:
    (found,) = folder.glob("lib/python*/site-packages")
    return found
